"""The sandbox's verdicts on one joint action: each is given once, whoever asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from collab.errors import RewardError

if TYPE_CHECKING:
    from collab.rewards.context import RewardContext
    from collab.sandbox import Sandbox, Treatment, Trial, Verdict

MakeTrial = Callable[["RewardContext", str, "Treatment | None"], "Trial"]
"""What the sandbox is asked about an artefact of a problem."""


class Verdicts:
    def __init__(self, sandbox: Sandbox | None, make_trial: MakeTrial) -> None:
        self._sandbox, self._make_trial = sandbox, make_trial
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[Hashable, asyncio.Task[Verdict]] = {}
        self._waiting = _Stopwatch()

    async def on(
        self, context: RewardContext, artefact: str, treatment: Treatment | None, run: int
    ) -> Verdict:
        """See `RewardContext.verdict`; can be awaited in any event loop."""
        work = self._once(context, artefact, treatment, run)
        if asyncio.get_running_loop() is self._loop:
            return await work
        elsewhere = asyncio.run_coroutine_threadsafe(work, self._loop)
        return await asyncio.wrap_future(elsewhere)

    def known(self, artefact: str) -> Verdict | None:
        """The verdict on an artefact as it is, where somebody has asked for it."""
        task = self._tasks.get((artefact, None, 0))
        return task.result() if task is not None and task.done() else None

    @property
    def seconds(self) -> float:
        """Wall time spent waiting for the sandbox, which keeps limits of its own."""
        return self._waiting.seconds

    def close(self) -> None:
        """Stop the runs that nobody waits for any more."""
        for task in self._tasks.values():
            task.cancel()

    async def _once(
        self, context: RewardContext, artefact: str, treatment: Treatment | None, run: int
    ) -> Verdict:
        key = (artefact, treatment, run)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._ask(context, artefact, treatment))
        return await self._tasks[key]

    async def _ask(
        self, context: RewardContext, artefact: str, treatment: Treatment | None
    ) -> Verdict:
        if self._sandbox is None:
            raise RewardError("the reward asks for a verdict, and no sandbox is open to give one")
        trial = self._make_trial(context, artefact, treatment)
        with self._waiting:
            return await self._sandbox.check(trial)


class _Stopwatch:
    """Wall time during which at least one of several things was under way."""

    def __init__(self) -> None:
        self._active, self._since, self._total = 0, 0.0, 0.0

    def __enter__(self) -> None:
        if not self._active:
            self._since = time.perf_counter()
        self._active += 1

    def __exit__(self, *_: object) -> None:
        self._active -= 1
        if not self._active:
            self._total += time.perf_counter() - self._since

    @property
    def seconds(self) -> float:
        running = time.perf_counter() - self._since if self._active else 0.0
        return self._total + running
