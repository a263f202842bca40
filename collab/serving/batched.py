"""A model that answers whole batches, shared by all episodes of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from collab.models import Capabilities, ChecksSettings, HasCapabilities, Model, Progress, Request
from collab.models.base import Batching, OpensEarly
from collab.records import Action, Sampling
from collab.runtime.scheduler import Scheduler

MOMENT = 0.02
"""Seconds that a batch waits for the next request of a burst, or of an episode just answered."""


class Batched:
    """A static model that takes requests at any time: those that wait share its next batch.

    A batch never waits for an episode that runs a tool or is gone. A batch that nobody waits for
    any more is cancelled.
    """

    batching: Batching = "continuous"

    def __init__(self, model: Model) -> None:
        self._model = model
        self._scheduler = Scheduler(0, self._report)
        self._hearers: dict[int, Progress] = {}

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def capabilities(self) -> Capabilities:
        """The model's, where it says them."""
        model = self._model
        return model.capabilities if isinstance(model, HasCapabilities) else Capabilities()

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Raise RecipeError for settings that the model cannot follow."""
        if isinstance(self._model, ChecksSettings):
            self._model.check(sampling, adapter)

    async def open_early(self, adapter: str | None = None) -> None:
        """Load the model, and an adapter's folder, where the model can."""
        if isinstance(self._model, OpensEarly):
            await self._model.open_early(adapter)

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Answer `requests` in the next batch."""
        asking = [(self._model, request) for request in requests]
        if progress:
            self._hearers |= {id(request): progress for request in requests}
        self._scheduler.enter()
        try:
            await asyncio.sleep(MOMENT)
            return await self._scheduler.act(asking)
        finally:
            asyncio.get_running_loop().call_later(MOMENT, self._scheduler.leave)
            for request in requests:
                self._hearers.pop(id(request), None)

    async def aclose(self) -> None:
        """Cancel the batch under way; the model stays open."""
        await self._scheduler.aclose()

    def _report(self, request: Request, new_tokens: int, text: str) -> None:
        if hear := self._hearers.get(id(request)):
            hear(request, new_tokens, text)
