"""The adapters that a vLLM engine serves: published by a trainer, or found in folders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from collab.models.base import AdapterWriter
from collab.models.vllm.adapter_files import check_servable, is_adapter, write_zero_adapter
from collab.models.vllm.adapter_store import AdapterStore, Version
from collab.models.vllm.backend import Capacity


class VersionInUse:
    """A version of an adapter, and whether requests still use it."""

    def __init__(self, version: Version, number: int | None = None) -> None:
        """Wrap a version. `number` is the trainer's number for it."""
        self.version, self.number = version, number
        self.idle = asyncio.Event()
        """Set while no request uses the version."""
        self.idle.set()
        self._users = 0

    @contextmanager
    def use(self) -> Iterator[Version]:
        """Context manager that counts one more request for the version."""
        self._users += 1
        self.idle.clear()
        try:
            yield self.version
        finally:
            self._users -= 1
            if not self._users:
                self.idle.set()


class ServedAdapters:
    """Maps an adapter's name or folder to the version that now serves it.

    A folder is read once; to serve changed weights, use a new path.
    """

    def __init__(self, parent: str | None) -> None:
        self._store = AdapterStore(Path(parent).expanduser().absolute() if parent else None)
        self._published: dict[str, VersionInUse] = {}
        self._adopted: dict[Path, VersionInUse] = {}
        self._expected: dict[Path, int] = {}
        self._zero_adapter: VersionInUse | None = None
        self.training = False
        """True if a trainer works on this machine while the engine is idle."""
        self._write_lock = asyncio.Lock()

    def expect(self, adapter: str) -> None:
        """Reserve capacity for the adapter in a folder, which a later request will name.

        Raises:
            RecipeError: the adapter cannot be served.
        """
        folder = _folder(adapter)
        if adapter not in self._published and is_adapter(folder):
            self._expected[folder] = check_servable(folder)

    def capacity(self) -> Capacity:
        """Return the capacity that an engine needs for all adapters in use or expected."""
        in_use = [*self._published.values(), *self._adopted.values()]
        expected = list(self._expected.items())
        expected_ranks = [rank for folder, rank in expected if folder not in self._adopted]
        return Capacity(
            adapters=len(in_use) + len(expected_ranks),
            rank=max([*(each.version.rank for each in in_use), *expected_ranks], default=0),
            training=self.training,
        )

    async def find(self, adapter: str) -> VersionInUse:
        """Return the adapter version that serves a published name or an adapter's folder.

        Raises:
            ModelError: `adapter` is neither.
            RecipeError: vLLM cannot serve the adapter.
        """
        if adapter in self._published:
            return self._published[adapter]
        folder = _folder(adapter)
        async with self._write_lock:  # requests of one batch arrive at the same time
            if folder not in self._adopted:
                version = await asyncio.to_thread(self._store.adopt, folder)
                self._adopted[folder] = VersionInUse(version)
        return self._adopted[folder]

    async def zero_adapter(self) -> VersionInUse | None:
        """Return an adapter of zeros, which does not change the model, or None if no adapter is in
        use or expected."""
        async with self._write_lock:
            folders = [
                *(each.version.folder for each in self._published.values()),
                *(each.version.folder for each in self._adopted.values()),
                *self._expected,
            ]
            if self._zero_adapter is None and folders:
                work = asyncio.to_thread(
                    self._store.add, "none", partial(write_zero_adapter, folders[0])
                )
                self._zero_adapter = VersionInUse(await work)
            return self._zero_adapter

    async def publish(
        self, name: str, write: AdapterWriter, number: int
    ) -> tuple[VersionInUse, VersionInUse | None]:
        """Write version `number` of adapter `name`. Return the new version, and the previous one or
        None.
        """
        before = self._published.get(name)
        async with self._write_lock:
            version = await asyncio.to_thread(self._store.add, name, write)
        published = self._published[name] = VersionInUse(version, number)
        return published, before

    def forget(self, unused: VersionInUse) -> None:
        """Delete a version that no engine holds anymore."""
        self._store.remove(unused.version)

    def close(self) -> None:
        self._store.close()


def _folder(adapter: str) -> Path:
    return Path(adapter).expanduser().resolve()
