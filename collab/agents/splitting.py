"""Splits a whole program into the parts of two agents; joined, they make the same program."""

from __future__ import annotations

import ast

from collab.agents.classes import Function
from collab.sandbox.jail.files import is_files
from collab.syntax import first_line, parse

HELPER = "aux"
"""The agent that writes the helper, and the usual name of its function."""


def split_program(source: str, function: str = HELPER) -> dict[str, str]:
    """Return a program's parts by agent: the helper's top-level `function`, and the rest.

    The join puts the helper first. Statements above it that its definition reads (decorators,
    defaults, annotations) are therefore copied to it, and `from __future__` lines move there. If a
    program does not parse, has several files or does not define the function, all of it belongs to
    the main agent.
    """
    try:
        body = parse(source).body
    except SyntaxError:
        return {HELPER: "", "main": source}
    helpers = [node for node in body if isinstance(node, Function) and node.name == function]
    if not helpers or is_files(source):
        return {HELPER: "", "main": source}
    future = [n for n in body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    above = body[: body.index(helpers[-1])]
    copied = _find_needed(helpers, [node for node in above if node not in helpers])
    lines = source.split("\n")
    moved = [node for node in body if node in future or node in helpers or node in copied]
    return {
        HELPER: "\n\n".join(
            "\n".join(lines[first_line(node) - 1 : node.end_lineno]) for node in moved
        ),
        "main": _blank_out(lines, [*future, *helpers]),
    }


def _find_needed(helpers: list[Function], above: list[ast.stmt]) -> list[ast.stmt]:
    """Return earlier statements that bind a name which the definitions read, even indirectly."""
    wanted = {name for node in helpers for name in _names_read_by_definition(node)}
    needed = []
    for node in reversed(above):
        if wanted & _bound_names(node):
            wanted |= _names_read(node)
            needed.append(node)
    return needed


def _names_read_by_definition(node: Function) -> set[str]:
    """Return the names read when a function is defined, not when it is called."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    parts = [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults, node.returns]
    parts += [argument.annotation for argument in every]
    return {name for part in parts if part is not None for name in _names_read(part)}


def _names_read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _bound_names(node: ast.stmt) -> set[str]:
    names = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names.add(node.name)
    if isinstance(node, ast.Import | ast.ImportFrom):
        names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return names


def _blank_out(lines: list[str], nodes: list[ast.stmt]) -> str:
    left = list(lines)
    for node in nodes:
        for number in range(first_line(node) - 1, node.end_lineno or node.lineno):
            left[number] = ""
    return "\n".join(left)
