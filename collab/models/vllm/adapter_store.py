"""Versions of LoRA adapters on disk, each whole, unchanging and under a name of its own.

vLLM keeps what it has computed with an adapter under the adapter's name and path, and does not
read a path again. An adapter that changes is therefore a new version: a new folder, moved into
place in one step, with a new name and number.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import weakref
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from collab.errors import ModelError
from collab.models.base import Write
from collab.models.vllm.adapter_files import check_servable, is_adapter
from collab.runs.layout import ADAPTER_CONFIG

MEMORY = Path("/dev/shm")
PREFIX = "collab-adapters-"


@dataclass(frozen=True)
class Version:
    """One state of an adapter."""

    name: str
    """Of this version, e.g. `aux@12-3f9a2c`; no other version of any process has it."""
    number: int
    """Counts the versions of all adapters in a store, from 1."""
    folder: Path
    rank: int


class AdapterStore:
    """The versions that engines may be asked for; gone when the store is closed.

    Without a `parent` they are kept in memory where the system allows it.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._token = secrets.token_hex(3)
        self._parent = parent or _local_parent()
        self._root: Path | None = None
        self._count = 0

    def add(self, name: str, write: Write) -> Version:
        """A new version of adapter `name`, as `write` makes it.

        Raises RecipeError for an adapter that vLLM cannot serve, ModelError when it cannot be
        written.
        """
        self._count += 1
        unique = f"{name}@{self._count}-{self._token}"
        try:
            partial = self._open() / f".partial-{unique}"
            write(partial)
            rank = check_servable(partial)
            folder = partial.rename(partial.with_name(unique))
        except OSError as error:
            raise ModelError(
                f"adapter {name!r} cannot be written to {self._parent}: {error.strerror}; free"
                " some room, or set the model's adapter_folder"
            ) from error
        return Version(unique, self._count, folder, rank)

    def adopt(self, folder: Path) -> Version:
        """A copy of the adapter in `folder`, which may change or vanish afterwards.

        Raises ModelError where there is none, RecipeError for one that vLLM cannot serve.
        """
        if not is_adapter(folder):
            raise ModelError(
                f"adapter {folder} is no folder with an {ADAPTER_CONFIG}, and no adapter that"
                " was given to the engine"
            )
        return self.add(folder.name, lambda target: _copy(folder, target))

    def remove(self, version: Version) -> None:
        """Delete a version that no engine reads any more."""
        shutil.rmtree(version.folder, ignore_errors=True)

    def close(self) -> None:
        """Delete every version."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def _open(self) -> Path:
        if self._root is None:
            _sweep(self._parent)
            root = self._parent / f"{PREFIX}{socket.gethostname()}-{os.getpid()}-{self._token}"
            root.mkdir(parents=True)
            weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
            self._root = root
        return self._root


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)


def _local_parent() -> Path:
    return MEMORY if os.access(MEMORY, os.W_OK) else Path(gettempdir())


def _sweep(parent: Path) -> None:
    """Delete what processes of this machine have left that were killed."""
    for path in parent.glob(f"{PREFIX}{socket.gethostname()}-*"):
        owner = path.name.split("-")[-2]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
