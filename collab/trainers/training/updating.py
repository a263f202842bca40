"""Having the learner take its steps, on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from collab.trainers.learner.base import Learner
from collab.trainers.learner.policy import Policies
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.update import Update


class Updates:
    """The updates of a run, one after the other."""

    def __init__(self, policies: Policies, learner: Learner) -> None:
        self._policies, self._learner = policies, learner
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner")
        self.torn = False
        """Whether an update was left half done, so that the parameters are those of no step."""

    async def take(self, samples: Sequence[Sample], step: int) -> Update:
        """Learn from the responses of `step`, counted from 0; raises as `Learner.learn`."""
        cancelled = Event()
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self.thread, self._learner.learn, samples, step, cancelled)
        self.torn = self._policies.moved = True
        try:
            update = await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()  # it is the cancellation, or comes too late for anybody
            raise
        self.torn = False
        self._policies.version = step + 1
        return update

    async def aclose(self) -> None:
        await asyncio.to_thread(self.thread.shutdown)
