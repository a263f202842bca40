"""A whole program as a function: from what it reads to what it prints."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType

MAIN = "__main__"
"""The entry point of a program that reads its standard input and prints."""


def as_function(code: CodeType) -> Callable[[str], str]:
    """The function that runs `code` from its start for a text of input, and gives what it prints.

    `SystemExit` ends a run as it ends a program; whatever else it raises is raised.
    """

    def run(text: str) -> str:
        printed = io.BytesIO()
        sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
        sys.stdout = io.TextIOWrapper(printed, "utf-8", write_through=True)
        with suppress(SystemExit):
            exec(code, {"__name__": MAIN, "__file__": code.co_filename})
        sys.stdout.flush()
        return printed.getvalue().decode("utf-8", "replace")

    return run
