"""The adapters that a vLLM engine serves: published by a trainer, or found in folders."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from collab.models.base import AdapterWriter
from collab.models.vllm.adapter_files import check_servable, is_adapter, write_zero_adapter
from collab.models.vllm.adapter_store import AdapterStore, Version
from collab.models.vllm.backend import Capacity


class ServedAdapters:
    """Maps an adapter's name or folder to the version that now serves it.

    A folder is read once; to serve changed weights, use a new path.
    """

    def __init__(self, parent: str | None) -> None:
        self._store = AdapterStore(Path(parent).expanduser().absolute() if parent else None)
        self._published: dict[str, Version] = {}
        self._adopted: dict[Path, Version] = {}
        self._expected: dict[Path, int] = {}
        self._zero_adapter: Version | None = None
        self.training = False
        """True if a trainer works on this machine while the engine is idle."""
        self._write_lock = asyncio.Lock()

    def expect(self, adapter: str) -> None:
        """Reserve capacity for the adapter in a folder, which a later request will name, or raise
        RecipeError if vLLM cannot serve it.
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
            rank=max([*(each.rank for each in in_use), *expected_ranks], default=0),
            training=self.training,
        )

    async def find(self, adapter: str) -> Version:
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
                self._adopted[folder] = await asyncio.to_thread(self._store.adopt, folder)
        return self._adopted[folder]

    async def zero_adapter(self) -> Version | None:
        """Return an adapter of zeros, which does not change the model, or None if no adapter is in
        use or expected."""
        async with self._write_lock:
            folders = [
                *(each.folder for each in self._published.values()),
                *(each.folder for each in self._adopted.values()),
                *self._expected,
            ]
            if self._zero_adapter is None and folders:
                self._zero_adapter = await asyncio.to_thread(
                    self._store.add, "none", partial(write_zero_adapter, folders[0])
                )
            return self._zero_adapter

    async def publish(
        self, name: str, write: AdapterWriter, number: int
    ) -> tuple[Version, Version | None]:
        """Write version `number` of adapter `name`. Return the new version, and the previous one or
        None.
        """
        before = self._published.get(name)
        async with self._write_lock:
            published = await asyncio.to_thread(self._store.add, name, write)
        published.step = number
        self._published[name] = published
        return published, before

    def close(self) -> None:
        self._store.close()


def _folder(adapter: str) -> Path:
    return Path(adapter).expanduser().resolve()
