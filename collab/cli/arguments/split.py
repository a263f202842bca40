"""A whole program as the artefacts of the coding team: its helper, and everything else."""

from __future__ import annotations

import ast

from collab.syntax import parse

HELPER = "aux"

_Node = ast.stmt


def split_program(source: str, function: str = HELPER) -> dict[str, str]:
    """By agent: the top-level definitions of the helper's `function`, and the rest of the program.

    The join puts the helper first, so what its definition reads (decorators, defaults,
    annotations) and stands above it is copied to it, and `from __future__` lines move there.
    A program that does not parse, or does not define it, belongs to the main agent as a whole.
    """
    try:
        body = parse(source).body
    except SyntaxError:
        return {HELPER: "", "main": source}
    helpers = [node for node in body if _defines(node, function)]
    if not helpers:
        return {HELPER: "", "main": source}
    future = [node for node in body if _is_future(node)]
    above = body[: body.index(helpers[-1])]
    copied = _needed(helpers, [node for node in above if node not in helpers])
    lines = source.split("\n")
    own = [node for node in body if node in future or node in helpers or node in copied]
    return {
        HELPER: "\n\n".join(_text(lines, node) for node in own),
        "main": _without(lines, [*future, *helpers]),
    }


def _defines(node: _Node, function: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function


def _is_future(node: _Node) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _needed(helpers: list[_Node], above: list[_Node]) -> list[_Node]:
    """The statements above that bind a name which the definitions read, and so on upwards."""
    wanted = {name for node in helpers for name in _read_by_definition(node)}
    needed = []
    for node in reversed(above):
        if wanted & _bound(node):
            wanted |= _read(node)
            needed.append(node)
    return needed


def _read_by_definition(node: _Node) -> set[str]:
    """The names read when a function is defined, not when it is called."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return set()
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    parts = [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults, node.returns]
    parts += [argument.annotation for argument in every]
    return {name for part in parts if part is not None for name in _read(part)}


def _read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _bound(node: _Node) -> set[str]:
    names = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names.add(node.name)
    if isinstance(node, ast.Import | ast.ImportFrom):
        names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return names


def _first_line(node: _Node) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _text(lines: list[str], node: _Node) -> str:
    return "\n".join(lines[_first_line(node) - 1 : node.end_lineno])


def _without(lines: list[str], nodes: list[_Node]) -> str:
    left = list(lines)
    for node in nodes:
        for number in range(_first_line(node) - 1, node.end_lineno or node.lineno):
            left[number] = ""
    return "\n".join(left)
