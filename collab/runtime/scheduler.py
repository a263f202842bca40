"""Which requests go to a model together.

Requests for a `continuous` engine are dispatched at once. Those for a `static` one wait until
no episode can add another, so that all agents of all episodes share one padded batch: an
episode's lane is *busy* while it works and idle while it waits here, and a batch leaves when
none is busy. What a batch holds therefore depends on the episodes alone, not on timing, and
the same seed gives the same tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from collab.errors import ModelError, attribute
from collab.models import Model, Progress, Request
from collab.records import Action, failure_of


@dataclass(eq=False)
class _Wait:
    """One episode's wait for the actions of one round."""

    done: asyncio.Future[list[Action]]
    actions: list[Action | None]
    missing: int


@dataclass
class _Queue:
    pending: list[tuple[Request, _Wait, int]] = field(default_factory=list)
    in_flight: bool = False


class Scheduler:
    """Serves `lanes` lanes, in each of which one episode after another is played."""

    def __init__(self, lanes: int, progress: Progress | None = None) -> None:
        self._progress = progress
        self._busy = lanes
        self._queues: dict[int, tuple[Model, _Queue]] = {}
        self._flights: set[asyncio.Task[None]] = set()

    def leave(self) -> None:
        """A lane has played its last episode."""
        self._busy -= 1
        self._dispatch_static()

    async def act(self, requests: Sequence[tuple[Model, Request]]) -> list[Action]:
        """One action for each request, in order; a model's trouble is a failed action."""
        loop = asyncio.get_running_loop()
        wait = _Wait(loop.create_future(), [None] * len(requests), len(requests))
        for position, (model, request) in enumerate(requests):
            if model.batching == "static":
                _, queue = self._queues.setdefault(id(model), (model, _Queue()))
                queue.pending.append((request, wait, position))
            else:
                self._fly(model, [(request, wait, position)])
        self._busy -= 1
        self._dispatch_static()
        try:
            return await wait.done
        except asyncio.CancelledError:
            self._withdraw(wait)
            raise

    async def together(self, branches: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run the parts of one lane at the same time; each may wait for actions of its own.

        When one of them raises, the others are cancelled and the error goes on.
        """
        running = len(branches)
        self._busy += running - 1

        async def run(branch: Coroutine[Any, Any, None]) -> None:
            nonlocal running
            try:
                await branch
            finally:
                running -= 1
                if running:  # the last one goes on as the lane
                    self._busy -= 1
                    self._dispatch_static()

        try:
            async with asyncio.TaskGroup() as group:
                for branch in branches:
                    group.create_task(run(branch))
        except* Exception as errors:
            raise errors.exceptions[0] from None

    async def aclose(self) -> None:
        """Cancel what is in flight and wait until the engines have stopped."""
        for flight in self._flights:
            flight.cancel()
        await asyncio.gather(*self._flights, return_exceptions=True)

    def _withdraw(self, wait: _Wait) -> None:
        for _, queue in self._queues.values():
            queue.pending = [entry for entry in queue.pending if entry[1] is not wait]
        if wait.missing:
            wait.missing = 0
            self._busy += 1

    def _dispatch_static(self) -> None:
        if self._busy:
            return
        for model, queue in self._queues.values():
            if queue.pending and not queue.in_flight:
                batch = sorted(queue.pending, key=_place)
                queue.pending = []
                queue.in_flight = True
                self._fly(model, batch, queue)

    def _fly(
        self, model: Model, batch: list[tuple[Request, _Wait, int]], queue: _Queue | None = None
    ) -> None:
        task = asyncio.create_task(self._generate(model, batch, queue))
        self._flights.add(task)
        task.add_done_callback(self._flights.discard)

    async def _generate(
        self, model: Model, batch: list[tuple[Request, _Wait, int]], queue: _Queue | None
    ) -> None:
        try:
            actions = await model.generate([request for request, _, _ in batch], self._progress)
        except Exception as error:
            failure = failure_of(attribute(error, ModelError))
            failed = Action(text="", finish_reason="failed", model=model.name, failure=failure)
            actions = [failed] * len(batch)
        finally:
            if queue is not None:
                queue.in_flight = False
        for (_, wait, position), action in zip(batch, actions, strict=True):
            self._deliver(wait, position, action)
        self._dispatch_static()

    def _deliver(self, wait: _Wait, position: int, action: Action) -> None:
        if not wait.missing:
            return
        wait.actions[position] = action
        wait.missing -= 1
        if not wait.missing:
            self._busy += 1
            wait.done.set_result([action for action in wait.actions if action is not None])


def _place(entry: tuple[Request, _Wait, int]) -> tuple[str, int, int, int, int]:
    """The same order in every run, however the waits came in."""
    call, position = entry[0].call, entry[2]
    return (call.task, call.sample, call.turn, call.round, position)
