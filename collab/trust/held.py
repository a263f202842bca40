"""Functions and servers from elsewhere that are held back until the user approves them.

Whoever reads a recipe is to settle its question before its functions are loaded and its servers of
tools are started. This is the lock behind that rule: a door that forgets to ask finds it shut.
What is held goes by a name: that of a function's file or module, that of a server's whole command.
A yes is for contents, by their digest: a file that has changed since is held back as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from collab.errors import Untrusted
from collab.runs.layout import MARKS

_held: set[str] = set()
_free: set[str] = set()
_agreed: dict[str, str] = {}
"""The digests of what was agreed to, by the name of a file, a module or a server."""


def hold(name: str) -> None:
    """Keep something from running, unless there was a yes to it in this process."""
    if name not in _free:
        _held.add(name)


def release(name: str) -> None:
    """Let it run, now and later."""
    _free.add(name)
    _held.discard(name)


def agree(contents: Iterable[tuple[str, str]]) -> None:
    """Note the digests of what there was a yes to, by name."""
    _agreed.update(contents)


def forget(contents: Iterable[tuple[str, str]]) -> None:
    """Let these have any contents: they are the user's own."""
    for name, _ in contents:
        _agreed.pop(name, None)


def _shown(name: str) -> str:
    return name.removeprefix("mcp\0").partition("\0with")[0].replace("\0", " ")


def agreed(name: str) -> str | None:
    """The digest of somebody else's file, module or server that runs by a yes; else None."""
    return _agreed.get(name)


def check(name: str, digest: str) -> None:
    """Raise Untrusted for contents that are not those that there was a yes to."""
    if _agreed.get(name, digest) != digest:
        raise Untrusted(
            f"{_shown(name)} has changed since you agreed to it; read it again, and give --trust"
            " (in Python: trust=True)"
        )


def is_free(name: str) -> bool:
    """True if there was a yes to it in this process, or it is the user's own."""
    return name in _free


def is_held(name: str) -> bool:
    """True if it may not run yet."""
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
    """A Python file by its whole path, wherever the current folder is; links may be turned."""
    return str(Path.cwd() / word) if word.endswith(".py") else word


def is_own(path: Path) -> bool:
    """True if a file belongs to the project in the current folder.

    Symbolic links are followed first. A file below the current folder is the project's, unless
    it lies in the folder of a run, which may have been unpacked there; one anywhere else is not.
    """
    real = path.resolve()
    return real.is_relative_to(Path.cwd().resolve()) and run_folder_of(real) is None


def run_folder_of(path: Path) -> Path | None:
    """The nearest folder of a run that a file lies in, the folders above it included."""
    for folder in path.resolve().parents:
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    return None
