"""The adapters that a vLLM engine is asked for: published by a trainer, or found in folders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from collab.models.base import Write
from collab.models.vllm.adapter_files import check_servable, is_adapter, write_blank
from collab.models.vllm.adapter_store import AdapterStore, Version
from collab.models.vllm.backend import Room


class Held:
    """A version of an adapter, and the requests that use it."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.idle = asyncio.Event()
        self.idle.set()
        self._users = 0

    @contextmanager
    def used(self) -> Iterator[Version]:
        self._users += 1
        self.idle.clear()
        try:
            yield self.version
        finally:
            self._users -= 1
            if not self._users:
                self.idle.set()


class ServedAdapters:
    """Which version answers for an adapter's name or folder now.

    A folder is read once; one whose content changes must be given under a new path.
    """

    def __init__(self, parent: str | None) -> None:
        self._store = AdapterStore(Path(parent).expanduser() if parent else None)
        self._published: dict[str, Held] = {}
        self._adopted: dict[Path, Held] = {}
        self._expected: dict[Path, int] = {}
        self._blank: Held | None = None
        self._writing = asyncio.Lock()

    def expect(self, adapter: str) -> None:
        """Plan for an adapter that will be asked for; raises RecipeError for an unservable one."""
        folder = _folder(adapter)
        if adapter not in self._published and is_adapter(folder):
            self._expected[folder] = check_servable(folder)

    def room(self) -> Room:
        """What an engine needs to serve all that is held and expected."""
        held = [*self._published.values(), *self._adopted.values()]
        expected = list(self._expected.items())
        awaited = [rank for folder, rank in expected if folder not in self._adopted]
        return Room(
            adapters=len(held) + len(awaited),
            rank=max([*(h.version.rank for h in held), *awaited], default=0),
            training=bool(self._published),
        )

    async def find(self, adapter: str) -> Held:
        """Raises ModelError for a name that was not published and is no adapter's folder."""
        if adapter in self._published:
            return self._published[adapter]
        folder = _folder(adapter)
        async with self._writing:  # the requests of one batch come at the same time
            if folder not in self._adopted:
                version = await asyncio.to_thread(self._store.adopt, folder)
                self._adopted[folder] = Held(version)
        return self._adopted[folder]

    async def blank(self) -> Held | None:
        """An adapter that changes nothing; None where no adapter is held or expected."""
        async with self._writing:
            folders = [
                *(held.version.folder for held in self._published.values()),
                *(held.version.folder for held in self._adopted.values()),
                *self._expected,
            ]
            if self._blank is None and folders:
                work = asyncio.to_thread(self._store.add, "none", partial(write_blank, folders[0]))
                self._blank = Held(await work)
            return self._blank

    async def publish(self, name: str, write: Write) -> tuple[Held, Held | None]:
        """A new version of `name`, and the one before."""
        before = self._published.get(name)
        async with self._writing:
            version = await asyncio.to_thread(self._store.add, name, write)
        held = self._published[name] = Held(version)
        return held, before

    def forget(self, held: Held) -> None:
        """Delete a version that no engine holds any more."""
        self._store.remove(held.version)

    def close(self) -> None:
        self._store.close()


def _folder(adapter: str) -> Path:
    return Path(adapter).expanduser().resolve()
