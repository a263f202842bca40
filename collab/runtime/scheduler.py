"""Groups requests to a model into batches.

Requests for a `continuous` engine are dispatched at once. Requests for a `static` one wait until no
episode can add another, so that all agents of all episodes share one padded batch. An episode's
lane is *busy* while it works and idle while it waits here. A batch is dispatched when no lane is
busy and no other batch is being answered. The content of a batch therefore depends only on the
episodes, not on timing, and the same seed gives the same tokens. An episode continues as soon as it
has its own answers: it is scored and recorded while the rest of the batch is generated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from collab.errors import ModelError, convert_error
from collab.models import Model, Progress, Request
from collab.records import Action, failure_of


@dataclass(eq=False)
class _Wait:
    """One episode's wait for the actions of one round."""

    done: asyncio.Future[list[Action]]
    actions: list[Action | None]
    missing: int
    rank: int

    def awaits(self, position: int) -> bool:
        """Return True if a caller still waits for a missing action and has not canceled it."""
        return self.missing > 0 and not self.done.done() and self.actions[position] is None


_Entry = tuple[Request, _Wait, int]
"""A request, its waiting caller, and the position of its action there."""


class Scheduler:
    """Serves `lanes` lanes, each of which runs one episode after another."""

    def __init__(self, lanes: int, progress: Progress | None = None) -> None:
        self._progress = progress
        self._busy = lanes
        self._queues: dict[int, tuple[Model, list[_Entry]]] = {}
        self._static_in_flight = 0
        self._batches_in_flight: dict[asyncio.Task[None], list[_Entry]] = {}

    def add_lane(self) -> None:
        """Add a lane. The next batch waits until its episode has sent its requests."""
        self._busy += 1

    def remove_lane(self) -> None:
        """Remove a lane, so that batches no longer wait for it."""
        self._busy -= 1
        self._dispatch_static()

    async def act(self, requests: Sequence[tuple[Model, Request]], rank: int = 0) -> list[Action]:
        """Return one action per request, in order. An error of a model becomes a failed action.

        `rank` orders the callers of one round in a batch.
        """
        loop = asyncio.get_running_loop()
        wait = _Wait(loop.create_future(), [None] * len(requests), len(requests), rank)
        for position, (model, request) in enumerate(requests):
            if model.batching == "static":
                _, queue = self._queues.setdefault(id(model), (model, []))
                queue.append((request, wait, position))
            else:
                self._dispatch(model, [(request, wait, position)])
        self._busy -= 1
        self._dispatch_static()
        try:
            return await wait.done
        except asyncio.CancelledError:
            self._withdraw(wait)
            raise

    async def together(self, branches: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run the parts of one lane at the same time. Each part may wait for its own actions.

        If one of them raises, the others are canceled and the error is raised.
        """
        running = len(branches)
        self._busy += running - 1

        async def run(branch: Coroutine[Any, Any, None]) -> None:
            nonlocal running
            try:
                await branch
            finally:
                running -= 1
                if running:  # the last one continues as the lane
                    self._busy -= 1
                    self._dispatch_static()

        try:
            async with asyncio.TaskGroup() as group:
                for branch in branches:
                    group.create_task(run(branch))
        except* Exception as errors:
            raise errors.exceptions[0] from None

    async def aclose(self) -> None:
        """Cancel requests in flight and wait until the engines have stopped."""
        for flight in self._batches_in_flight:
            _cancel_once(flight)
        await asyncio.gather(*self._batches_in_flight, return_exceptions=True)

    def _withdraw(self, wait: _Wait) -> None:
        for _, queue in self._queues.values():
            queue[:] = [entry for entry in queue if entry[1] is not wait]
        if wait.missing:
            wait.missing = 0
            self._busy += 1
        for flight, batch in self._batches_in_flight.items():
            if not any(wait.missing for _, wait, _ in batch):
                _cancel_once(flight)

    def _dispatch_static(self) -> None:
        if self._busy or self._static_in_flight:
            return
        for model, queue in self._queues.values():
            if queue:
                batch = sorted(queue, key=_batch_order)
                queue.clear()
                self._static_in_flight += 1
                self._dispatch(model, batch)

    def _dispatch(self, model: Model, batch: list[_Entry]) -> None:
        task = asyncio.create_task(self._generate(model, batch))
        self._batches_in_flight[task] = batch
        task.add_done_callback(self._batches_in_flight.pop)

    async def _generate(self, model: Model, batch: list[_Entry]) -> None:
        def answered(index: int, action: Action) -> None:
            _check_action(model, action)
            _, wait, position = batch[index]
            self._deliver(wait, position, action)

        try:
            requests = [request for request, _, _ in batch]
            await model.answer_each(requests, answered, self._progress)
            if left := sum(wait.awaits(position) for _, wait, position in batch):
                raise ModelError(
                    f"model {model.name!r} returned no action for {left} of {len(batch)} requests"
                )
        except Exception as error:
            failure = failure_of(convert_error(error, ModelError))
            failed = Action(text="", finish_reason="failed", model=model.name, failure=failure)
            for index in range(len(batch)):
                answered(index, failed)
        finally:
            if model.batching == "static":
                self._static_in_flight -= 1
            self._dispatch_static()

    def _deliver(self, wait: _Wait, position: int, action: Action) -> None:
        if not wait.awaits(position):
            return
        wait.actions[position] = action
        wait.missing -= 1
        if not wait.missing:
            self._busy += 1
            wait.done.set_result([action for action in wait.actions if action is not None])


def _check_action(model: Model, answer: Any) -> None:
    """Check that an engine answered a request with an action.

    Raises:
        ModelError: it is something else.
    """
    if not isinstance(answer, Action):
        raise ModelError(
            f"model {model.name!r} answered with a {type(answer).__name__}; an engine answers each"
            " request with a collab.records.Action"
        )


def _batch_order(entry: _Entry) -> tuple[str, int, int, int, int, int]:
    """Return a sort key that is the same in every run and does not depend on timing."""
    request, wait, position = entry
    call = request.call
    return (call.task, call.sample, call.turn, call.round, wait.rank, position)


def _cancel_once(flight: asyncio.Task[None]) -> None:
    """Cancel only once: a second time would end the engine's wait for its call to stop."""
    if not flight.cancelling():
        flight.cancel()
