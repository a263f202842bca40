"""Commands of MCP servers: the files and folders they name, and how they start once approved.

A command can run any file, so its approval lasts as long as the process. It covers the whole folder
of each foreign file that a word of the command names, which is compared right before each start.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from collab.errors import RecipeError
from collab.trust.blocking import (
    approved_digest,
    check_unchanged_since_approval,
    is_own,
    server_key,
)
from collab.trust.sources import digest_of, sources_of_script

PYTHONS = ("python", "python3")
"""Words of a command that mean the Python that runs collab."""
MOST_FILES, MOST_BYTES, MOST_LEVELS = 20_000, 500_000_000, 50
"""Limits of a folder that an approval covers."""
COMPILED = {".pyc", ".pyo", ".so", ".pyd", ".dylib", ".dll", ".node", ".class", ".jar"}
"""Suffixes of files that run and that nobody can read."""
_BETWEEN = re.compile(r"[\s=:,;&|<>(){}`'\"]+")
_ATTACHED = re.compile(r"-[A-Za-z](.+)")
"""An option of one letter with its value, such as `-Idir`."""
MOST_NAMES = 1_000
"""Limit of the words of a command and the pieces within them."""
MOST_FOLDERS = 100
"""Limit of the folders that a command names, alone or by several words as in `cd a && cd b`."""
_ABOVE_PATTERN = re.compile(r"([^*?\[]*/)[^/]*[*?\[]")
_OF_KERNEL = ("/proc", "/sys")
"""Folders whose files the kernel makes; reading one may never end."""
_MAIN = ("__main__.py", "__main__.pyc")
"""Files that Python runs if a command is given their folder."""


def files_of(command: Sequence[str]) -> dict[Path, str]:
    """Return the files that a command names, in whole words or within them, each with its digest.

    Within a word, a name may be relative to a folder that the command names. A Python file's digest
    includes its local modules. Programs on the user's PATH, and this Python, belong to the machine.

    Raises:
        RecipeError: a file cannot be read.
    """
    return {_real(path): _digest(path) for path in _files(command)}


def folders_of(command: Sequence[str]) -> list[Path]:
    """Return the foreign folders that a command may run files from, without those on the PATH.

    These folders contain files that the command names, match the start of a pattern in it, or are
    named in it. A folder above the current one counts only if it contains such a file.
    """
    words = _words(command)
    starts = [match[1] for word in words if (match := _ABOVE_PATTERN.match(word))]
    named = [_real(path) for path in _named_folders([*words, *starts])]
    folders = [path for path in named if path not in Path.cwd().resolve().parents]
    for path in _files(command):
        beside = [_real(path), *(source.path for source in sources_of_script(path))]
        folders += [_real(path.parent), *(file.parent for file in beside)]
    on_path = _on_path()
    foreign = [path for path in folders if path not in on_path and not is_own(path / "file")]
    return list(dict.fromkeys(foreign))


def compiled_in(folders: Iterable[Path]) -> list[Path]:
    """Return the compiled files in some folders."""
    return [path for folder in folders for path, _ in _within(folder) if path.suffix in COMPILED]


def content_of(command: Sequence[str], given: Sequence[str]) -> str:
    """Return text that identifies a command with its `given` variables and the digests of its files
    and folders.

    Raises:
        RecipeError: a folder is above the limits, or cannot be read.
    """
    files = files_of(command)
    shown = [files.get(_real(path), str(path)) for path in map(Path, command)]
    within = [digest for digest in files.values() if digest not in shown]
    folders = map(_folder_digest, folders_of(command))
    return "\0".join(["mcp", *shown, " ".join(given), *within, *folders])


def _words(command: Sequence[str]) -> list[str]:
    """Return the words of a command after its program, and the pieces within them.

    Raises:
        RecipeError: there are more than MOST_NAMES words.
    """
    texts = [form for word in command[1:] for form in (word, os.path.expandvars(word))]
    pieces = [*texts]
    for text in texts:
        pieces += [text.partition("=")[2], *_shell_words(text), *_BETWEEN.split(text)]
    pieces += [match[1] for piece in pieces if (match := _ATTACHED.fullmatch(piece))]
    names = dict.fromkeys(os.path.expanduser(piece) for piece in pieces if piece)  # noqa: PTH111
    if len(names) > MOST_NAMES:
        raise RecipeError(
            f"the command of an MCP server has more than {MOST_NAMES:,} words, too many to look"
            " for files; put the command into a script, and name that"
        )
    return [*names]


def _shell_words(text: str) -> list[str]:
    """Split a string like a shell, or return it whole if its quotes are open."""
    try:
        return [*shlex.shlex(text, posix=True, punctuation_chars=True)]
    except ValueError:
        return [text]


def _files(command: Sequence[str]) -> list[Path]:
    words = _words(command)
    folders = _named_folders(words)
    named = [Path(word) for word in _program(command[0])]
    named += [folder / word for folder in (Path(), *folders) for word in words]
    named += [folder / name for folder in folders for name in _MAIN]
    return [path for path in named if _is("is_file", path)]


def _real(path: Path) -> Path:
    """Return the path with links resolved, as far as the targets exist."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:  # not a possible path
        return path


def _is_of_kernel(real: Path) -> bool:
    return any(real.is_relative_to(folder) for folder in _OF_KERNEL)


def _named_folders(words: Sequence[str]) -> list[Path]:
    """Return the folders among words, alone or relative to each other.

    Raises:
        RecipeError: there are more than MOST_FOLDERS folders.
    """
    folders: dict[Path, Path] = {}
    waiting = [Path()]
    while waiting:
        above = waiting.pop()
        for path in [above / word for word in words]:
            if _is("is_dir", path) and _real(path) not in folders:
                folders[_real(path)] = path
                waiting.append(path)
        if len(folders) > MOST_FOLDERS:
            raise RecipeError(
                f"the command of an MCP server has more than {MOST_FOLDERS} folders, too many to"
                " check before it starts; put the command into a script, and name that"
            )
    return [*folders.values()]


def _program(word: str) -> list[str]:
    """Return the program as a file; nothing for one that belongs to the machine or the
    environment."""
    path = shutil.which(word) or word
    folder = _real(Path(path).parent)  # a link to the program itself is not followed
    on_path = "/" in path and folder in _on_path()
    environment = folder.parent / "pyvenv.cfg"
    in_environment = environment.is_file() and is_own(environment)
    return [] if on_path or in_environment or word == sys.executable else [path]


def _on_path() -> list[Path]:
    entries = os.environ.get("PATH", "").split(os.pathsep)
    return [_real(Path(entry)) for entry in entries if entry]


def _is(kind: Literal["is_file", "is_dir"], path: Path, real: Path | None = None) -> bool:
    """Return True for a file or folder that the kernel did not make; `real` is its resolved
    path."""
    try:
        return bool(getattr(path, kind)()) and not _is_of_kernel(real or _real(path))
    except (OSError, ValueError):  # not a possible path
        return False


def _digest(path: Path) -> str:
    if sources := sources_of_script(path):
        return digest_of(sources)
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "blake2b").hexdigest()
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}") from error


def _folder_digest(folder: Path) -> str:
    """Return a digest of everything in a folder, links followed, independent of its location."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        for path, kind in _bounded(folder):
            content = _file_digest(path) if kind == b"f" else b""  # a fixed length per kind
            name = os.fsencode(path.relative_to(folder))
            link = os.fsencode(path.readlink()) if path.is_symlink() else b""
            digest.update(b"%s %d %d %s%s" % (kind, len(name), len(link), name, link) + content)
    except OSError as error:
        raise RecipeError(f"{error.filename} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _file_digest(path: Path) -> bytes:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "blake2b").digest()


def _bounded(folder: Path) -> list[tuple[Path, bytes]]:
    """Return all paths below a folder, each with its kind.

    Raises:
        RecipeError: the paths exceed the limits.
    """
    paths, size = [], 0
    for path, kind in _within(folder):
        paths.append((path, kind))
        size += path.stat().st_size if kind == b"f" else 0
        levels = len(path.parts) - len(folder.parts)
        if len(paths) > MOST_FILES or size > MOST_BYTES or levels > MOST_LEVELS:
            raise RecipeError(
                f"{folder} has more than {MOST_FILES:,} files, {MOST_BYTES // 10**6:,} MB or"
                f" {MOST_LEVELS} levels of folders, too much to check before the server starts;"
                " move the server's files to a smaller folder"
            )
    return paths


def _within(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield all paths below a folder, each with a letter: f for files, d for folders, o for others.

    A folder that several links lead to is listed once.
    """
    waiting, seen = [folder], set()
    while waiting:
        above = waiting.pop()
        real_above = _real(above)
        if real_above not in seen:
            seen.add(real_above)
            for path in sorted(above.iterdir()):
                real = _real(path) if path.is_symlink() else real_above / path.name
                is_folder = _is("is_dir", path, real)
                yield path, b"d" if is_folder else b"f" if _is("is_file", path, real) else b"o"
                if is_folder:
                    waiting.append(path)


@contextmanager
def as_approved(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield a command and its environment variables, checked if the command is foreign.

    Python then reads and writes no bytecode next to the sources, but in a new, empty folder.

    Raises:
        Untrusted: the command's files or folders have changed since they were approved.
    """
    lock = server_key(command, [*environment])
    words = [sys.executable if command[0] in PYTHONS else command[0], *command[1:]]
    if approved_digest(lock) is None:
        yield words, {**environment}
        return
    with TemporaryDirectory(prefix="collab-") as folder:
        if words[0] == sys.executable:
            words[1:1] = ["-X", f"pycache_prefix={folder}"]
        check_unchanged_since_approval(lock, content_of(command, [*environment]))
        yield words, {**environment, "PYTHONPYCACHEPREFIX": folder}
