"""The sandbox's verdicts on one joint action: each is given once, whoever asks for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from collab.errors import RewardError

if TYPE_CHECKING:
    from collab.sandbox import Sandbox, Trial, Verdict

MakeTrial = Callable[[], "Trial"]
"""What the sandbox is asked, made when it is asked."""


class Verdicts:
    def __init__(self, sandbox: Sandbox | None) -> None:
        self._sandbox = sandbox
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[Hashable, asyncio.Task[Verdict]] = {}
        self._waiting = _Stopwatch()

    async def on(self, key: Hashable, trial: MakeTrial) -> Verdict:
        """The verdict of a trial, asked for once per `key`; awaited in any event loop."""
        work = self._once(key, trial)
        if asyncio.get_running_loop() is self._loop:
            return await work
        elsewhere = asyncio.run_coroutine_threadsafe(work, self._loop)
        return await asyncio.wrap_future(elsewhere)

    def known(self, key: Hashable) -> Verdict | None:
        """The verdict that `on` has given for `key`; None before that."""
        task = self._tasks.get(key)
        return task.result() if task is not None and task.done() else None

    @property
    def seconds(self) -> float:
        """Wall time spent waiting for the sandbox, which keeps limits of its own."""
        return self._waiting.seconds

    def close(self) -> None:
        """Stop the runs that nobody waits for any more."""
        for task in self._tasks.values():
            task.cancel()

    async def _once(self, key: Hashable, trial: MakeTrial) -> Verdict:
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._ask(trial))
        return await self._tasks[key]

    async def _ask(self, trial: MakeTrial) -> Verdict:
        if self._sandbox is None:
            raise RewardError("the reward asks for a verdict, and no sandbox is open to give one")
        asked = trial()
        with self._waiting:
            return await self._sandbox.check(asked)


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
