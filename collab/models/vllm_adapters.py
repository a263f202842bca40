"""The adapters that a vLLM engine is asked for: published by a trainer, or found in folders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collab.models.adapter_files import check_servable, is_adapter
from collab.models.adapter_store import AdapterStore, Version
from collab.models.base import Write
from collab.models.vllm_backend import Room


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
        if folder not in self._adopted:
            version = await asyncio.to_thread(self._store.adopt, folder)
            self._adopted.setdefault(folder, Held(version))
        return self._adopted[folder]

    async def publish(self, name: str, write: Write) -> tuple[Held, Held | None]:
        """A new version of `name`, and the one before."""
        before = self._published.get(name)
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
