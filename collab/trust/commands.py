"""Commands of MCP servers: the files that they name, and how they start once approved."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b, file_digest
from pathlib import Path
from tempfile import TemporaryDirectory

from collab.errors import RecipeError
from collab.trust import blocking
from collab.trust.sources import digest_of, sources_of_script

MAX_PATHS = 100_000
"""Limit of the paths that one command may name."""
_SEPARATORS = re.compile(r"[\s=:,;&|<>(){}`'\"]+")
_MAIN_FILES = ("__main__.py", "__main__.pyc")  # which Python runs if it is given their folder
_KERNEL_FOLDERS = ("/proc/", "/sys/")  # reading a file there may never end


def files_of(command: Sequence[str]) -> list[Path]:
    """Return the files that a command names, in whole words or within them.

    A name may be relative to a folder that the command names. Programs on the user's PATH, and this
    Python, belong to the machine.

    Raises:
        RecipeError: the command names more than MAX_PATHS paths.
    """
    names = _candidate_names(command[1:])
    paths = [*map(Path, (*_foreign_program(command[0]), *names))]
    existing: dict[str, Path] = {}
    for path in paths:  # it grows by the names in each folder
        if len(paths) > MAX_PATHS:
            raise RecipeError(
                f"the command of an MCP server names more than {MAX_PATHS:,} paths, too many to"
                " look for files; put the command into a script, and name that"
            )
        is_folder = os.path.isdir(path)  # noqa: PTH112  # unlike Path, takes what can be no path
        if is_folder or os.path.isfile(path):  # noqa: PTH113
            real = os.path.realpath(path)
            if real not in existing and not real.startswith(_KERNEL_FOLDERS):
                existing[real] = path
                paths += [path / name for name in (*names, *_MAIN_FILES) if is_folder]
    return [path for path in existing.values() if path.is_file()]


def command_digest(command: Sequence[str], variables: Sequence[str]) -> str:
    """Return a digest of a command, its variables, and its files with their local modules.

    Raises:
        RecipeError: a file cannot be read.
    """
    parts = [blocking.server_key(command, variables)]
    for path in files_of(command):
        parts += [str(path), _file_digest(path)]
    return blake2b(os.fsencode("\0".join(parts)), digest_size=20).hexdigest()


def _file_digest(path: Path) -> str:
    if sources := sources_of_script(path):
        return digest_of(sources)
    try:
        with path.open("rb") as stream:
            return file_digest(stream, "blake2b").hexdigest()
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}") from error


def _candidate_names(words: Sequence[str]) -> list[str]:
    """Return the words, the pieces within them, and the values of options."""
    texts = dict.fromkeys(form for word in words for form in (word, os.path.expandvars(word)))
    pieces = [piece for text in texts for piece in (text, *_SEPARATORS.split(text))]
    for text in texts:
        with suppress(ValueError):  # open quotes
            pieces += shlex.shlex(text, posix=True, punctuation_chars=True)
    pieces += [piece.partition("=")[2] for piece in pieces]
    pieces += [piece[2:] for piece in pieces if piece.startswith("-")]  # such as -Idir
    return [*dict.fromkeys(os.path.expanduser(piece) for piece in pieces if piece)]  # noqa: PTH111


def _foreign_program(word: str) -> list[str]:
    """Return the program, unless it belongs to the machine or to an environment of the user's."""
    path = shutil.which(word) or word
    folder = os.path.realpath(os.path.dirname(path))  # noqa: PTH120  # links to programs are kept
    on_path = [os.path.realpath(entry) for entry in os.get_exec_path() if entry]
    environment = Path(folder).parent / "pyvenv.cfg"
    in_environment = environment.is_file() and blocking.is_own(environment)
    return [] if folder in on_path or in_environment or word == sys.executable else [path]


@contextmanager
def approved_command(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield a command and its environment variables, checked if the command is foreign.

    `python` means the Python that runs collab. The Python of a foreign command reads and writes no
    bytecode next to the sources, but in a new, empty folder.

    Raises:
        Untrusted: the command's files have changed since they were approved.
    """
    key = blocking.server_key(command, [*environment])
    words = [sys.executable if command[0] in ("python", "python3") else command[0], *command[1:]]
    if blocking.approved_digest(key) is None:
        yield words, {**environment}
        return
    with TemporaryDirectory(prefix="collab-") as folder:
        if words[0] == sys.executable:
            words[1:1] = ["-X", f"pycache_prefix={folder}"]
        blocking.check_unchanged_since_approval(key, command_digest(command, [*environment]))
        yield words, {**environment, "PYTHONPYCACHEPREFIX": folder}
