"""Playing the steps of a run: each when it is its turn, or the next one while one is learned."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from collab.recipe import TrainerSpec
from collab.records import Episode
from collab.trainers.learner.base import Learner
from collab.trainers.training.ending import Ending
from collab.trainers.training.events import TrainingProgress
from collab.trainers.training.metrics import generated_tokens
from collab.trainers.training.recorded_step import AnyStepper

Played = tuple[list[list[Episode]], dict[str, float]]
"""The episodes of each task, and seconds by kind of work."""


class Ahead:
    """The episodes of step after step, of which one may be played before it is its turn.

    What is played ahead begins by the policies as they are then. When its turn comes they have
    learned a step more, and responses that begin from there on are drawn by what they have learned.
    """

    def __init__(
        self,
        stepper: AnyStepper,
        learner: Learner,
        spec: TrainerSpec,
        ending: Ending,
        emit: Callable[[TrainingProgress], None],
    ) -> None:
        self._stepper, self._learner, self._emit = stepper, learner, emit
        self._spec, self._ending = spec, ending
        self._playing: tuple[int, asyncio.Task[Played]] | None = None

    async def play(self, step: int) -> Played:
        """The episodes of `step`, which may be under way already; raises as its play does."""
        playing, self._playing = self._playing, None
        if playing is None or playing[0] != step:
            return await self._play(step)
        began = time.perf_counter()
        self._playing = playing  # or nobody would end it, where this is cancelled
        await self._learner.publish()
        published = time.perf_counter() - began
        groups, times = await playing[1]
        self._playing = None
        waited = time.perf_counter() - began
        return groups, {**times, "publishing": published, "waiting": waited - published}

    def begin(self, step: int, tokens: int, played: Sequence[Sequence[Episode]]) -> None:
        """Begin to play the step after `step`, where the trainer may and what it asks is known.

        `tokens` were generated before `step`, of which these episodes were `played`.
        """
        last = self._ending.is_reached(step + 1, tokens + generated_tokens(played))
        if self._spec.max_staleness and not last and self._stepper.goes_on_alike(step, played):
            self._playing = step + 1, asyncio.create_task(self._play(step + 1))

    async def aclose(self) -> None:
        """End what is being played."""
        playing, self._playing = self._playing, None
        if playing is not None:
            playing[1].cancel()
            await asyncio.gather(playing[1], return_exceptions=True)

    async def _play(self, step: int) -> Played:
        def report(part: Any, done: int, total: int) -> None:
            self._emit(TrainingProgress(step=step + 1, phase=part, done=done, total=total))

        return await self._stepper.play(step, report)
