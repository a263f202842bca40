"""A whole program as a function: from its input to its output."""

from __future__ import annotations

import atexit
import builtins
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress

from .standard_streams import standard_streams

MAIN_ENTRY_POINT = "__main__"
"""Entry point of a program that reads its standard input and prints."""


def as_function(
    code: types.CodeType, prepare: Callable[[], None] = lambda: None
) -> Callable[[str], str]:
    """Return a function that runs `code` on an input text and returns its output.

    `prepare` is called before each run, e.g. to reload the program's modules. As with a separate
    process, a run ends when its threads and its `atexit` handlers have ended. `SystemExit` also
    ends a run. Other exceptions of the program are raised.
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
    module = types.ModuleType(MAIN_ENTRY_POINT)
    module.__file__ = code.co_filename
    sys.modules[MAIN_ENTRY_POINT] = module
    try:
        with suppress(SystemExit):
            exec(code, module.__dict__)
    finally:
        _end_run()
        # This flushes files that the program left open, before the next run.
        module.__dict__.clear()


def _end_run() -> None:
    """Wait for the program's threads, then run its exit handlers."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    with suppress(Exception):
        sys.stdout.flush()
