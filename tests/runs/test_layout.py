"""The names of a run's files stand in one place."""

import ast
from pathlib import Path

import collab
from collab.runs import layout

PACKAGE = Path(collab.__file__).parent
FILES = {value for name, value in vars(layout).items() if name.isupper() and "." in value[1:]}


def test_names_of_files_stand_once() -> None:
    again = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value!r}"
        for path in PACKAGE.rglob("*.py")
        if path != Path(layout.__file__)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in FILES
    ]
    assert again == [], "take these from collab.runs.layout"
