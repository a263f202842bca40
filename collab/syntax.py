"""Parses Python that a model wrote: every failure is a SyntaxError."""

from __future__ import annotations

import ast
import re
import warnings
from threading import Lock

MAX_CHARACTERS = 200_000
MAX_DEPTH = 200

_PARSER_LOCK = Lock()
"""Lock for the parser: Python 3.11 counts a tree's depth for all threads together."""


def parse(source: str) -> ast.Module:
    """Parse `source` to a syntax tree no deeper than a recursive visitor can walk.

    Raises:
        SyntaxError: with line and column if known; also for sources that would exhaust the parser
            (90,000 minus signs), hold NUL bytes or lone surrogates, or are longer than
            `MAX_CHARACTERS`.
    """
    if len(source) > MAX_CHARACTERS:
        raise SyntaxError(f"source of {len(source)} characters; the limit is {MAX_CHARACTERS}")
    try:
        with _PARSER_LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (MemoryError, RecursionError):
        raise SyntaxError("nested too deeply for the parser") from None
    except ValueError as error:  # NUL bytes, lone surrogates
        raise SyntaxError(str(error)) from None
    if _is_deeper(tree, MAX_DEPTH):
        raise SyntaxError(f"nested deeper than {MAX_DEPTH} levels")
    return tree


def can_parse(source: str) -> bool:
    """Return True if `parse` accepts the source."""
    try:
        parse(source)
    except SyntaxError:
        return False
    return True


def split_lines(source: str) -> list[str]:
    """Return the lines that the parser counts. A form feed or U+2028 ends none."""
    return re.split(r"\r\n?|\n", source)


def normalize_newlines(text: str) -> str:
    """Return the text with each line end of Windows or of old Macs as a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def module_functions(tree: ast.Module) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the module-level functions by name. If a name is defined twice, the last definition
    counts.
    """
    return {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def first_line(node: ast.stmt) -> int:
    """Return the line where a statement begins, including its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _is_deeper(tree: ast.AST, limit: int) -> bool:
    level = [tree]
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True
