"""Attributes are defined in `__init__`, which lists everything that an object holds."""

import ast
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import collab

pytestmark = pytest.mark.slow


PACKAGE = Path(collab.__file__).parent

Class = ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


def late_attributes(owners: Mapping[str, Class], classes: Mapping[str, Class]) -> Iterator[str]:
    """Yield `Class.attribute` if a method sets an attribute that its class does not declare.

    Attributes are declared in `__init__` or the class body, for example as dataclass fields. Base
    classes in `classes` count too.
    """
    for owner in owners.values():
        declared = _declared(owner, classes)
        undeclared = {
            name for method in _methods(owner) for name in _set_on_self(method)
        } - declared
        yield from (f"{owner.name}.{name}" for name in sorted(undeclared))


def classes_of(tree: ast.AST) -> dict[str, Class]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, Class)}


def _declared(owner: Class, classes: Mapping[str, Class]) -> set[str]:
    names: set[str] = set()
    for base in owner.bases:
        if isinstance(base, ast.Name) and base.id in classes and base.id != owner.name:
            names |= _declared(classes[base.id], classes)
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, Function):
            names.add(node.name)  # a property with a setter
    for method in _methods(owner):
        if method.name in ("__init__", "__new__", "__post_init__"):
            names |= _set_on_self(method)
    return names | _slots(owner)


def _slots(owner: Class) -> set[str]:
    return {
        item.value
        for node in owner.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__"
        for item in ast.walk(node.value)
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    }


def _methods(owner: Class) -> list[Function]:
    return [node for node in owner.body if isinstance(node, Function) and node.args.args]


def _set_on_self(method: Function) -> set[str]:
    first = method.args.args[0].arg
    added_to = {id(node.target) for node in ast.walk(method) if isinstance(node, ast.AugAssign)}
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and id(node) not in added_to
        and isinstance(node.value, ast.Name)
        and node.value.id == first
    }


def test_attributes_are_defined_in_init() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    by_file = {path: classes_of(tree) for path, tree in trees.items()}
    every = ChainMap(*by_file.values())
    found = {
        f"{path.relative_to(PACKAGE.parent)}: {name}"
        for path, classes in by_file.items()
        for name in late_attributes(classes, ChainMap(classes, every))
    }
    assert sorted(found) == [], "set them in `__init__`, if needed to None or an empty value"


def test_late_attributes_are_detected() -> None:
    source = """
class Base:
    field: int
    def __init__(self):
        self.here = 1
class Made(Base):
    def open(self):
        self.here, self.field = 2, 3
        self.elsewhere += 1
        self.late = 4
        with open("x") as self.file:
            pass
"""
    classes = classes_of(ast.parse(source))
    assert list(late_attributes(classes, classes)) == ["Made.file", "Made.late"]
