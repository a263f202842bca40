"""A whole program as a function: from what it reads to what it prints."""

from __future__ import annotations

import atexit
import builtins
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress

from .standard_streams import standard_streams

MAIN = "__main__"
"""The entry point of a program that reads its standard input and prints."""


def as_function(
    code: types.CodeType, prepare: Callable[[], None] = lambda: None
) -> Callable[[str], str]:
    """The function that runs `code` from its start for a text of input, and gives what it prints.

    `prepare` is called before each run, such as to have its modules loaded anew.

    As with a process of its own, a run ends when its threads and what it left to `atexit` have
    ended. `SystemExit` ends it too; whatever else the program raises is raised.
    """
    atexit._clear()
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    depth = sys.getrecursionlimit()

    def run(text: str) -> str:
        prepare()
        threading.stack_size(0)
        sys.setrecursionlimit(depth)
        with standard_streams(text.encode("utf-8", "surrogatepass")) as printed:
            _run(code)
        return printed.decode("utf-8", "replace")

    return run


def _run(code: types.CodeType) -> None:
    module = types.ModuleType(MAIN)
    module.__file__ = code.co_filename
    sys.modules[MAIN] = module
    try:
        with suppress(SystemExit):
            exec(code, module.__dict__)
    finally:
        _end()
        # A file that the program left open writes what it holds now, not in the next run.
        module.__dict__.clear()


def _end() -> None:
    """Wait for the program's threads, then do what it left for its end."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    with suppress(Exception):
        sys.stdout.flush()
