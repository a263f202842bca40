"""Names of metrics, of run files, of PEFT's files and of classes are defined once."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import collab
from collab.runs import layout, metric_names

PACKAGE = Path(collab.__file__).parent


Written = list[tuple[str, int, str]]
"""File, line and text of a string literal in the package."""


def strings_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string literal, except docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield node.lineno, text


METRICS = {
    value
    for name, value in vars(metric_names).items()
    if name.isupper() and isinstance(value, str) and "/" in value
}
BEGINS = tuple(name.partition("*")[0] for name in METRICS if "*" in name)
FILES = {value for name, value in vars(layout).items() if name.isupper()}


def is_metric(text: str) -> bool:
    """Return True for the name of a metric, or for its start, as in an f-string."""
    return text in METRICS or text.startswith(BEGINS)


def is_file_of_peft(text: str) -> bool:
    return layout.ADAPTER_CONFIG in text or layout.ADAPTER_WEIGHTS in text


def is_file_of_a_run(text: str) -> bool:
    return "." in text[1:] and text in FILES


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.AST]:
    """The syntax tree of each file of the package, by its path."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@pytest.fixture(scope="module")
def string_literals(trees: dict[str, ast.AST]) -> Written:
    return [(file, line, text) for file, tree in trees.items() for line, text in strings_in(tree)]


def offences(string_literals: Written, home: str, is_one: Callable[[str], bool]) -> list[str]:
    return [
        f"collab/{file}:{line}: {text!r}"
        for file, line, text in string_literals
        if file != home and is_one(text)
    ]


def test_metrics_are_named_in_one_module(string_literals: Written) -> None:
    assert offences(string_literals, "runs/metric_names.py", is_metric) == []


def test_files_of_peft_are_named_in_one_module(string_literals: Written) -> None:
    assert offences(string_literals, "runs/layout.py", is_file_of_peft) == []


def test_files_of_a_run_are_named_in_one_module(string_literals: Written) -> None:
    assert is_file_of_a_run("state.pt")
    assert offences(string_literals, "runs/layout.py", is_file_of_a_run) == []


@pytest.mark.parametrize("text", ["return/mean", "agent/", "points/syntax", "episodes/dropped"])
def test_metric_names_are_recognized(text: str) -> None:
    assert is_metric(text)


def test_metric_patterns_are_filled_and_matched() -> None:
    assert metric_names.fill_pattern(metric_names.KL, "aux") == "agent/aux/kl"
    assert metric_names.match_pattern(metric_names.KL, "agent/aux/kl") == "aux"
    assert metric_names.match_pattern(metric_names.KL, "agent/aux/length") is None
    assert metric_names.match_pattern(metric_names.SOLVED, "solved") == ""
    assert metric_names.base_metric("coop@3") == "coop"
    assert metric_names.base_metric("pass@3") == metric_names.base_metric("return") == ""


PARTICIPLES = {"told", "found", "given", "said", "asked", "own"}
"""Words that say nothing: a name is a noun for its value or a verb for its action."""


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each variable, parameter, attribute, function and class."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name


def test_names_are_not_bare_participles(trees: dict[str, ast.AST]) -> None:
    allowed = "probe/results.py"  # `own`: the share that an agent explains alone
    assert [
        f"{file}:{line}: {name}"
        for file, tree in trees.items()
        if file != allowed
        for line, name in names_of(tree)
        if name.strip("_") in PARTICIPLES
    ] == []


SEVERAL = {"Estimate", "Game", "Rewards", "Turn"}
"""Documented classes and aliases of two packages."""


def types_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield name and definition of each class, and of each alias of a type."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.ClassDef(name=name):
                yield name, f"class at line {node.lineno}"
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.isupper():
                yield name, ast.unparse(value)


def test_a_type_has_its_name_alone(trees: dict[str, ast.AST]) -> None:
    """Equal aliases may have the same name."""
    definitions: dict[str, set[str]] = {}
    for file, tree in trees.items():
        for name, text in types_of(tree):
            if name[0].isupper():
                place = f" of {file}" if text.startswith("class ") else ""
                definitions.setdefault(name, set()).add(text + place)
    assert {name for name, found in definitions.items() if len(found) > 1} == SEVERAL
