"""Code without the words that its writer could address to whoever reads it."""

from __future__ import annotations

import ast
import re

from collab.syntax import parse

_COMMENT_OR_STRING = re.compile(
    r"""(?P<string>("""  # a string is kept, a comment is not
    r""""{3}(?:\\.|[^\\])*?(?:"{3}|\Z)|'{3}(?:\\.|[^\\])*?(?:'{3}|\Z)"""
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|\#[^\n]*""",
    re.VERBOSE | re.DOTALL,
)


def strip_comments(source: str) -> str:
    """`source` without comments, docstrings and other strings that are nobody's value.

    Code that does not parse loses its comments only.
    """
    try:
        return ast.unparse(_without_idle_strings(parse(source)))
    except (SyntaxError, RecursionError, ValueError):
        return _COMMENT_OR_STRING.sub(lambda match: match["string"] or "", source)


def _without_idle_strings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [statement for statement in body if not _is_idle_string(statement)]
            node.body = kept if kept or isinstance(node, ast.Module) else [ast.Pass()]  # type: ignore[attr-defined]
        for block in ("orelse", "finalbody"):
            statements = getattr(node, block, None)
            if isinstance(statements, list):
                kept = [statement for statement in statements if not _is_idle_string(statement)]
                setattr(node, block, kept)
    return tree


def _is_idle_string(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr):
        return False
    is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str | bytes)
    return is_text or isinstance(node.value, ast.JoinedStr)
