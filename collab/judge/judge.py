"""The judge: many trials at once, each in a court of a small pool.

Threads wait for the courts, so the event loop never does, and a judge may serve several event
loops in turn.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from collab.errors import JudgeError, JudgeUnavailable
from collab.judge.client import CourtClient
from collab.judge.verdict import Trial, Verdict
from collab.recipe.judge import JudgeSpec

UNSAFE_HINT = "or run without isolation by choice: --judge unsafe"


class Judge:
    """Runs untrusted programs against trusted tests, as `spec` says.

    Cheap to construct: processes start with the first trial, and again after `close`.

        async with Judge(JudgeSpec()) as judge:
            verdict = await judge.check(trial)
    """

    def __init__(self, spec: JudgeSpec | None = None) -> None:
        self.spec = spec or JudgeSpec()
        self._lock = threading.Lock()
        self._idle: list[CourtClient] = []
        self._busy: set[CourtClient] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._owner = os.getpid()

    async def check(self, trial: Trial) -> Verdict:
        """Run one trial.

        Raises JudgeUnavailable where this system cannot isolate the program, and JudgeError for
        other trouble of ours, such as a test that does not parse. What the program does is never
        an error but a verdict.
        """
        work = _Work()
        waiting = self._pool().submit(self._judge, trial, work)
        try:
            return await asyncio.wrap_future(waiting)
        except asyncio.CancelledError:
            work.cancel()
            await _ended(waiting)
            raise

    def close(self) -> None:
        """End every process of the judge; trials that are running raise JudgeError."""
        with self._lock:
            threads, self._threads = self._threads, None
            courts = [*self._idle, *self._busy]
            self._idle.clear()
        for court in courts:
            court.stop()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)
        for court in courts:
            court.end()

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._owner != os.getpid():
                # A fork of the caller must not speak to the courts of its parent.
                self._owner = os.getpid()
                self._idle, self._busy, self._threads = [], set(), None
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._workers(), "judge")
            return self._threads

    def _workers(self) -> int:
        if self.spec.workers:
            return self.spec.workers
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def _judge(self, trial: Trial, work: _Work) -> Verdict:
        court = self._take()
        try:
            answer = work.ask(court, self._request(trial))
        except BaseException:
            self._give_up(court)
            raise
        self._give_back(court)
        return self._verdict(answer)

    def _take(self) -> CourtClient:
        with self._lock:
            court = self._idle.pop() if self._idle else None
        if court is not None and not court.alive:
            court.end()
            court = None
        court = court or CourtClient(self.spec.isolation)
        with self._lock:
            self._busy.add(court)
        return court

    def _give_back(self, court: CourtClient) -> None:
        with self._lock:
            self._busy.discard(court)
            self._idle.append(court)

    def _give_up(self, court: CourtClient) -> None:
        with self._lock:
            self._busy.discard(court)
        court.end()

    def _request(self, trial: Trial) -> dict[str, Any]:
        limits = self.spec.model_dump(exclude={"isolation", "workers"})
        return {
            "program": trial.program,
            "entry_point": trial.entry_point,
            "test": trial.test,
            "prelude": trial.prelude,
            "treatment": trial.treatment.model_dump() if trial.treatment else None,
            "limits": limits,
        }

    def _verdict(self, answer: dict[str, Any]) -> Verdict:
        if refused := answer.get("refused"):
            raise JudgeUnavailable(
                f"programs cannot be isolated here: the layer `{refused['layer']}` is not to be "
                f"had ({refused['reason']}); {refused['remedy']}; {UNSAFE_HINT}"
            )
        if "trouble" in answer:
            raise JudgeError(answer["trouble"])
        return Verdict(**answer, isolation=self.spec.isolation)


class _Work:
    """One trial's claim on a court, which may be cancelled from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._court: CourtClient | None = None
        self._cancelled = False

    def ask(self, court: CourtClient, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if self._cancelled:
                raise JudgeError("the trial was cancelled")
            self._court = court
        answer = court.ask(request)
        with self._lock:
            self._court = None
            if self._cancelled:
                raise JudgeError("the trial was cancelled")
        return answer

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._court is not None:
                self._court.stop()


async def _ended(waiting: Future[Verdict]) -> None:
    """Wait for the thread of a cancelled trial, which ends as soon as its court does."""
    if not waiting.cancel():
        ending = asyncio.wrap_future(waiting)
        await asyncio.wait([ending])
        if not ending.cancelled():
            ending.exception()  # of a trial that nobody waits for any more
