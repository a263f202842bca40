"""Commands of MCP servers: the files they name, and how they run once approved."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from collab.errors import RecipeError
from collab.trust.blocking import approved_digest, check, is_own, of_server
from collab.trust.sources import digest_of, sources_of

PYTHONS = ("python", "python3")
"""Words of a command that mean the Python that runs collab."""
_BETWEEN = re.compile(r"[\s=:,;&|<>(){}`'\"]+")


def files_of(command: Sequence[str]) -> dict[Path, str]:
    """Return the files that a command names, in whole words or within them, each with its digest.

    Within a word, a name may be relative to a folder that the command names. A Python file's digest
    includes its local modules. Programs on the user's PATH, and this Python, belong to the machine.

    Raises:
        RecipeError: a file cannot be read.
    """
    texts = [os.path.expanduser(os.path.expandvars(text)) for text in command[1:]]  # noqa: PTH111
    words = {word for text in texts for word in (text, *_BETWEEN.split(text)) if word}
    folders = [Path(word) for word in words if _is("is_dir", Path(word))]
    named = [Path(word) for word in _program(command[0])]
    named += [folder / word for folder in (Path(), *folders) for word in sorted(words)]
    named += [path for folder in folders if _runs(folder) for path in sorted(folder.rglob("*"))]
    return {path.resolve(): _digest(path) for path in named if _is("is_file", path)}


def content_of(command: Sequence[str], given: Sequence[str], files: Mapping[Path, str]) -> str:
    """Identify a command with its `given` variables; files count by their digests."""
    shown = [files.get(path.resolve(), str(path)) for path in map(Path, command)]
    within = [digest for digest in files.values() if digest not in shown]
    return "\0".join(["mcp", *shown, " ".join(given), *within])


def _runs(folder: Path) -> bool:
    """Return True if Python can run the folder as a program."""
    return any(_is("is_file", folder / f"__main__.{suffix}") for suffix in ("py", "pyc"))


def _program(word: str) -> list[str]:
    """Return the program as a file; None for one that belongs to the machine or the environment."""
    path = shutil.which(word) or word
    folder = Path(os.path.abspath(path)).parent  # noqa: PTH100  # a link is not followed
    on_path = "/" in path and str(folder) in os.environ.get("PATH", "").split(os.pathsep)
    environment = folder.parent / "pyvenv.cfg"
    in_environment = environment.is_file() and is_own(environment)
    return [] if on_path or in_environment or word == sys.executable else [path]


def _is(kind: Literal["is_file", "is_dir"], path: Path) -> bool:
    try:
        return bool(getattr(path, kind)())
    except (OSError, ValueError):  # a text that can be no path
        return False


def _digest(path: Path) -> str:
    if path.suffix == ".py":
        return digest_of(sources_of(path))
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "blake2b").hexdigest()
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}") from error


@contextmanager
def as_approved(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield a command and its environment variables; while entered, the approved files run.

    The Python files of a foreign command import their local modules from copies of the approved
    files, and nothing from the folders that contain them.

    Raises:
        Untrusted: a file has changed since it was approved.
    """
    lock = of_server(command, [*environment])
    words = [sys.executable if command[0] in PYTHONS else command[0], *command[1:]]
    if approved_digest(lock) is None:
        yield words, {**environment}
        return
    files = files_of(command)
    check(lock, content_of(command, [*environment], files))
    with TemporaryDirectory(prefix="collab-") as folder:
        for path in files:
            sources = sources_of(path) if path.suffix == ".py" else []
            check(str(path), digest_of(sources) if sources else _digest(path))
            for source in sources[1:]:
                copy = Path(folder) / source.place
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(source.content)
        if words[0] == sys.executable:
            words.insert(1, "-P")
        given = filter(None, [folder, environment.get("PYTHONPATH")])
        only = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(given)}
        yield words, {**environment, **only}
