"""Versions of LoRA adapters on disk, each complete, immutable and with its own name.

vLLM caches computations under an adapter's name and path, and reads a path only once. A changed
adapter is therefore a new version: a new folder, moved into place in one step, with a new name and
number.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from filelock import FileLock, Timeout

from collab.errors import ModelError
from collab.models.base import AdapterWriter
from collab.models.vllm.adapter_files import check_servable, is_adapter
from collab.runs.layout import ADAPTER_CONFIG

MEMORY_FOLDER = Path("/dev/shm")
FOLDER_PREFIX = "collab-adapters-"
LOCK_SUFFIX = ".lock"


@dataclass(eq=False)
class Version:
    """One version of an adapter, in its own folder, and whether requests still use it."""

    name: str
    """Unique name of the version among all processes, e.g. `aux@12-3f9a2c`."""
    number: int
    """Number of the version, counted over all adapters in a store, from 1."""
    folder: Path
    rank: int
    step: int | None = None
    """The trainer's number of the version."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no request uses the version."""
    users: int = 0
    """Number of requests that use the version."""

    def __post_init__(self) -> None:
        self.idle.set()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Context manager that counts one more request for the version."""
        self.users += 1
        self.idle.clear()
        try:
            yield
        finally:
            self.users -= 1
            if not self.users:
                self.idle.set()

    def delete(self) -> None:
        """Delete the files of a version that no engine reads anymore."""
        shutil.rmtree(self.folder, ignore_errors=True)


class AdapterStore:
    """Holds the adapter versions that engines may use, and deletes them when it is closed.

    Without a `parent` they are kept in memory if the system allows it.
    """

    def __init__(self, parent: Path | None) -> None:
        self._token = secrets.token_hex(3)
        default = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else Path(gettempdir())
        self._parent = parent or default
        self._root: Path | None = None
        self._lock: FileLock | None = None
        self._count = 0

    def add(self, name: str, write: AdapterWriter) -> Version:
        """Return a new version of adapter `name`, which `write` has written to a folder.

        Raises:
            RecipeError: vLLM cannot serve the adapter.
            ModelError: the adapter cannot be written.
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
                f"adapter {name!r} cannot be written to {self._parent}:"
                f" {error.strerror or error}; free some space, or set the model's adapter_folder"
            ) from error
        return Version(unique, self._count, folder, rank)

    def adopt(self, folder: Path) -> Version:
        """Return a new version with a copy of the adapter in `folder`, which may change or vanish
        afterwards.

        Raises:
            ModelError: the folder has no adapter, or it cannot be copied.
            RecipeError: vLLM cannot serve the adapter.
        """
        if not is_adapter(folder):
            raise ModelError(
                f"adapter {folder} is not a folder with an {ADAPTER_CONFIG}, and not an adapter"
                " that was given to the engine"
            )
        return self.add(folder.name, lambda target: _copy(folder, target))

    def close(self) -> None:
        """Delete every version. The store cannot be used afterwards."""
        if self._root is not None:
            _delete(self._root)
            self._root = None
        if self._lock is not None:
            self._lock.release()

    def _open(self) -> Path:
        if self._root is None:
            self._parent.mkdir(parents=True, exist_ok=True)
            _delete_leftovers(self._parent)
            root = self._parent / f"{_host_prefix()}-{os.getpid()}-{self._token}"
            self._lock = _lock_of(root)
            self._lock.acquire()  # before there is anything that others could delete
            root.mkdir()
            weakref.finalize(self, _delete, root)
            self._root = root
        return self._root


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)


def _host_prefix() -> str:
    return f"{FOLDER_PREFIX}{socket.gethostname()}"


def _delete_leftovers(parent: Path) -> None:
    """Delete the leftovers of killed processes of this host. Running ones hold their locks."""
    for root in parent.glob(f"{_host_prefix()}-*-*"):
        if root.is_dir() and root.name.rsplit("-", 2)[0] == _host_prefix():
            with suppress(Timeout), _lock_of(root):
                _delete(root)


def _lock_of(root: Path) -> FileLock:
    """Return the lock file that the folder's process holds while it uses the folder."""
    return FileLock(root.with_name(f"{root.name}{LOCK_SUFFIX}"), blocking=False, thread_local=False)


def _delete(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.with_name(f"{root.name}{LOCK_SUFFIX}").unlink(missing_ok=True)
