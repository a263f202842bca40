"""What comes from elsewhere and has no yes, held back where it would begin to run.

Whoever reads a recipe is to settle its question before its functions are loaded and its servers of
tools are started. This is the lock behind that rule: a door that forgets to ask finds it shut.
What is held goes by a name: that of a function's file or module, that of a server's whole command.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_held: set[str] = set()
_free: set[str] = set()


def hold(name: str) -> None:
    """Keep something from running, unless there was a yes to it in this process."""
    if name not in _free:
        _held.add(name)


def release(name: str) -> None:
    """Let it run, now and later."""
    _free.add(name)
    _held.discard(name)


def is_free(name: str) -> bool:
    """Whether there was a yes to it in this process, or it is the user's own."""
    return name in _free


def is_held(name: str) -> bool:
    """Whether it may not run yet."""
    return name in _held


def of_function(reference: str) -> str:
    """The name of a function's file, links followed, or of its module: loading runs all of it."""
    origin = reference.rpartition(":")[0]
    return str(Path(origin).resolve()) if origin.endswith(".py") else origin


def of_server(mcp: str | Sequence[str], given: Sequence[str]) -> str:
    """The name of a server of tools: its command or address, and the variables it is `given`."""
    words = [mcp] if isinstance(mcp, str) else [_word(word) for word in mcp]
    return "\0".join(["mcp", *words, "with", *given])


def _word(word: str) -> str:
    """A Python file by its whole path, wherever the current folder is."""
    return str(Path(word).resolve()) if word.endswith(".py") else word
