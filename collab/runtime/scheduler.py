"""Groups requests to a model into batches.

Requests for a `continuous` engine are dispatched at once. Requests for a `static` one wait until no
episode can add another, so that all agents of all episodes share one padded batch. An episode is
*busy* while it works and idle while it waits here. A batch is dispatched when no episode is busy
and no other batch is being answered. The content of a batch therefore depends only on the episodes,
not on timing, and the same seed gives the same tokens. An episode continues as soon as it has its
own answers: it is scored and recorded while the rest of the batch is generated.
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
    """A caller's wait for the action of one request."""

    request: Request
    rank: int
    done: asyncio.Future[Action]


class Scheduler:
    """Serves `episodes` concurrent episodes. When one ends, another may take its place."""

    def __init__(self, episodes: int, progress: Progress | None = None) -> None:
        self._progress = progress
        self._busy = episodes
        self._queues: dict[int, tuple[Model, list[_Wait]]] = {}
        self._static_in_flight = 0
        self._batches_in_flight: dict[asyncio.Task[None], list[_Wait]] = {}

    def add_episode(self) -> None:
        """Add an episode. The next batch waits until it has sent its requests."""
        self._busy += 1

    def remove_episode(self) -> None:
        """Remove an episode, so that batches no longer wait for it."""
        self._busy -= 1
        self._dispatch_static()

    async def act(self, model: Model, request: Request, rank: int = 0) -> Action:
        """Return the action of a request. An error of the model becomes a failed action.

        `rank` orders the callers of one round in a batch.
        """
        wait = _Wait(request, rank, asyncio.get_running_loop().create_future())
        if model.batching == "static":
            _, queue = self._queues.setdefault(id(model), (model, []))
            queue.append(wait)
        else:
            self._dispatch(model, [wait])
        self._busy -= 1
        self._dispatch_static()
        try:
            return await wait.done
        except asyncio.CancelledError:
            self._withdraw(wait)
            raise

    async def together(self, branches: Sequence[Coroutine[Any, Any, object]]) -> None:
        """Run the parts of one episode at the same time. Each part may wait for its own actions.

        If one of them raises, the others are canceled and the error is raised.
        """
        running = len(branches)
        self._busy += running - 1

        async def run(branch: Coroutine[Any, Any, object]) -> None:
            nonlocal running
            try:
                await branch
            finally:
                running -= 1
                if running:  # the last one continues as the episode
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
            queue[:] = [other for other in queue if other is not wait]
        if wait.done.cancelled():  # otherwise it was delivered
            self._busy += 1
        for flight, batch in self._batches_in_flight.items():
            if all(wait.done.done() for wait in batch):
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

    def _dispatch(self, model: Model, batch: list[_Wait]) -> None:
        task = asyncio.create_task(self._generate(model, batch))
        self._batches_in_flight[task] = batch
        task.add_done_callback(self._batches_in_flight.pop)

    async def _generate(self, model: Model, batch: list[_Wait]) -> None:
        def answered(index: int, action: Action) -> None:
            _check_action(model, action)
            wait = batch[index]
            if not wait.done.done():  # its caller may have left, or have another answer
                self._busy += 1
                wait.done.set_result(action)

        try:
            requests = [wait.request for wait in batch]
            await model.answer_each(requests, answered, self._progress)
            if left := sum(not wait.done.done() for wait in batch):
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


def _check_action(model: Model, answer: Any) -> None:
    """Raise ModelError for an engine that answered a request with something else."""
    if not isinstance(answer, Action):
        raise ModelError(
            f"model {model.name!r} answered with a {type(answer).__name__}; an engine answers each"
            " request with a collab.records.Action"
        )


def _batch_order(wait: _Wait) -> tuple[str, int, int, int, int]:
    """Return a sort key that is the same in every run and does not depend on timing."""
    call = wait.request.call
    return (call.task, call.sample, call.turn, call.round, wait.rank)


def _cancel_once(flight: asyncio.Task[None]) -> None:
    """Cancel only once: a second time would end the engine's wait for its call to stop."""
    if not flight.cancelling():
        flight.cancel()
