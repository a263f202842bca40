"""Blocks third-party functions and servers until the user approves them.

Every reader of a recipe must have its question approved before it loads functions or starts MCP
servers. Code that forgets to ask is refused. Each item has a key: a function's file or module, or a
server's whole command. Approval is for contents, by their digest: a file that has changed since is
blocked as well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from collab.errors import Untrusted
from collab.runs.layout import RUN_MARKERS

_blocked: set[str] = set()
_unblocked: set[str] = set()
_approved_digests: dict[str, str] = {}
foreign_folders: set[Path] = set()
"""Folders of third-party YAML files, such as a download."""


def block(key: str) -> None:
    """Block a function or server, unless it was approved in this process."""
    if key not in _unblocked:
        _blocked.add(key)


def unblock(key: str) -> None:
    """Allow a function or server to run in this process, even if `block` is called later."""
    _unblocked.add(key)
    _blocked.discard(key)


def keep_digest(key: str, digest: str) -> None:
    """Keep the approved digest of a file, module or server."""
    _approved_digests[key] = digest


def drop_digest(key: str) -> None:
    """Drop the approved digest of the user's own file, module or server, so that any content is
    allowed."""
    _approved_digests.pop(key, None)


def _format_key(key: str) -> str:
    command = key.removeprefix("mcp\0").partition("\0with")[0].replace("\0", " ")
    return command if command == key else f"{command}, or a file that it names,"


def approved_digest(key: str) -> str | None:
    """Return the approved digest of a foreign file, module or server, otherwise None."""
    return _approved_digests.get(key)


def check_unchanged_since_approval(key: str, digest: str) -> None:
    """Raise Untrusted for contents that differ from the approved ones."""
    if _approved_digests.get(key, digest) != digest:
        raise Untrusted(
            f"{_format_key(key)} has changed since you approved it; read it again, and add --trust"
            " (in Python: trust=True)"
        )


def is_unblocked(key: str) -> bool:
    """Return True if a function or server was approved in this process, or is the user's own."""
    return key in _unblocked


def check_allowed(key: str, what: str) -> None:
    """Check that a file, module or server may run. `what` describes it, for the message.

    Raises:
        Untrusted: it is blocked.
    """
    if key in _blocked:
        raise Untrusted(
            f"{what} and would run with your permissions; read it, and if you trust it, add"
            " --trust (in Python: trust=True)"
        )


def function_key(reference: str) -> str:
    """Return the key for approval of a function: its file's path with links resolved, or its
    module's name.

    Approval covers the whole file, because loading a function runs all of it.
    """
    origin = reference.rpartition(":")[0]
    return str(Path(origin).resolve()) if origin.endswith(".py") else origin


def server_key(mcp: str | Sequence[str], variables: Sequence[str]) -> str:
    """Return the key for approval of a server: its command or address, and the names of its
    environment variables."""
    words = [mcp] if isinstance(mcp, str) else [_absolute_script(word) for word in mcp]
    return "\0".join(["mcp", *words, "with", *dict.fromkeys(variables)])


def _absolute_script(word: str) -> str:
    """Return the absolute path of a Python file, but any other word as it is."""
    return str(Path.cwd() / word) if word.endswith(".py") else word


def is_own(path: Path) -> bool:
    """Return True if a file belongs to the project in the current folder.

    Symbolic links are resolved first. Only a file below the current folder belongs to the project.
    There, it must not be in the folder of a run, which may have been unpacked, nor in
    `foreign_folders`.
    """
    real = path.resolve()
    if any(map(real.is_relative_to, foreign_folders)):
        return False
    return real.is_relative_to(Path.cwd().resolve()) and run_folder_of(real) is None


def mark_foreign(folder: Path) -> None:
    """Count the files in a folder as foreign, unless it is or contains the current folder."""
    real = folder.resolve()
    if not Path.cwd().resolve().is_relative_to(real):
        foreign_folders.add(real)


def run_folder_of(path: Path) -> Path | None:
    """Return the nearest folder of a run that contains a file, including folders further up."""
    for folder in path.resolve().parents:
        if any(os.path.lexists(folder / mark) for mark in RUN_MARKERS):  # also a link to nothing
            return folder
    return None
