"""Functions from elsewhere without a yes, held back where functions are loaded.

Whoever reads a recipe is to settle its question before its functions are used. This is the lock
behind that rule: a door that forgets to ask finds it shut.
"""

from __future__ import annotations

from pathlib import Path

_held: set[str] = set()
_free: set[str] = set()


def hold(reference: str) -> None:
    """Keep a function from being loaded, unless there was a yes to its file in this process."""
    if (origin := _origin(reference)) not in _free:
        _held.add(origin)


def release(reference: str) -> None:
    """Let the functions of this one's file or module be loaded, now and later."""
    origin = _origin(reference)
    _free.add(origin)
    _held.discard(origin)


def is_held(reference: str) -> bool:
    return _origin(reference) in _held


def _origin(reference: str) -> str:
    """The file, links followed, or the module: loading runs all of it."""
    origin = reference.rpartition(":")[0]
    return str(Path(origin).resolve()) if origin.endswith(".py") else origin
