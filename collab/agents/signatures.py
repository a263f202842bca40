"""The two halves of a code prompt: the code that it gives, and the words of its docstring."""

from __future__ import annotations

import ast
from inspect import cleandoc

from collab.syntax import parse


def signature(prompt: str) -> str:
    """The prompt without the docstring of its last function, which has no body then.

    Imports and helper functions that the prompt gives stay. A prompt that is no Python, or ends in
    no function with a docstring, is returned stripped.
    """
    text = _docstring_of(prompt)
    if text is None:
        return prompt.strip()
    lines = prompt.splitlines()[: text.lineno - 1]
    return "\n".join(lines).strip()


def docstring(prompt: str) -> str:
    """The docstring of the prompt's last function, without its indentation; "" if it has none."""
    text = _docstring_of(prompt)
    return "" if text is None else cleandoc(str(text.value))


def _docstring_of(prompt: str) -> ast.Constant | None:
    try:
        body = parse(prompt).body
    except SyntaxError:
        return None
    last = body[-1] if body else None
    if not isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    first = last.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.value if isinstance(first.value.value, str) else None
    return None
