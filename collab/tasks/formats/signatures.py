"""What stands below a signature in a prompt."""

from __future__ import annotations


def docstring(text: str) -> str:
    """The text as a function's docstring, whatever quotes and backslashes it holds."""
    safe = text.replace("\\", "\\\\").replace('"""', "'''")
    end = ' """' if safe.endswith('"') else '"""'
    return f'    """{safe}{end}\n'
