"""The sandbox: many trials at once, each in a supervisor of a small pool.

Threads wait for the supervisors, so the event loop never does, and a sandbox may serve several
event loops in turn.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from collab.errors import SandboxError, SandboxUnavailable
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox.client import JailClient
from collab.sandbox.verdict import Trial, Verdict

UNSAFE_HINT = "or run without isolation by choice: --sandbox unsafe"


class Sandbox:
    """Runs untrusted programs against trusted tests, as `spec` says.

    Cheap to construct: processes start with the first trial, and again after `close`.

        async with Sandbox(SandboxSpec()) as sandbox:
            verdict = await sandbox.check(trial)
    """

    def __init__(self, spec: SandboxSpec | None = None) -> None:
        self.spec = spec or SandboxSpec()
        self._lock = threading.Lock()
        self._idle: list[JailClient] = []
        self._busy: set[JailClient] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._owner = os.getpid()

    async def check(self, trial: Trial) -> Verdict:
        """Run one trial.

        Raises SandboxUnavailable where this system cannot isolate the program, and SandboxError for
        other trouble of ours, such as a test that does not parse. What the program does is never
        an error but a verdict.
        """
        work = _Work()
        waiting = self._pool().submit(self._sandbox, trial, work)
        try:
            return await asyncio.wrap_future(waiting)
        except asyncio.CancelledError:
            work.cancel()
            await _ended(waiting)
            raise

    def close(self) -> None:
        """End every process of the sandbox; trials that are running raise SandboxError."""
        with self._lock:
            threads, self._threads = self._threads, None
            supervisors = [*self._idle, *self._busy]
            self._idle.clear()
        for supervisor in supervisors:
            supervisor.stop()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)
        for supervisor in supervisors:
            supervisor.end()

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._owner != os.getpid():
                # A fork of the caller must not speak to the supervisors of its parent.
                self._owner = os.getpid()
                self._idle, self._busy, self._threads = [], set(), None
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._workers(), "sandbox")
            return self._threads

    def _workers(self) -> int:
        if self.spec.workers:
            return self.spec.workers
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def _sandbox(self, trial: Trial, work: _Work) -> Verdict:
        supervisor = self._take()
        try:
            answer = work.ask(supervisor, self._request(trial))
        except BaseException:
            self._give_up(supervisor)
            raise
        self._give_back(supervisor)
        return self._verdict(answer)

    def _take(self) -> JailClient:
        with self._lock:
            supervisor = self._idle.pop() if self._idle else None
        if supervisor is not None and not supervisor.alive:
            supervisor.end()
            supervisor = None
        supervisor = supervisor or JailClient(self.spec.isolation)
        with self._lock:
            self._busy.add(supervisor)
        return supervisor

    def _give_back(self, supervisor: JailClient) -> None:
        with self._lock:
            self._busy.discard(supervisor)
            self._idle.append(supervisor)

    def _give_up(self, supervisor: JailClient) -> None:
        with self._lock:
            self._busy.discard(supervisor)
        supervisor.end()

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
            raise SandboxUnavailable(
                f"programs cannot be isolated here: the layer `{refused['layer']}` is not to be "
                f"had ({refused['reason']}); {refused['remedy']}; {UNSAFE_HINT}"
            )
        if "trouble" in answer:
            raise SandboxError(answer["trouble"])
        return Verdict(**answer, isolation=self.spec.isolation)


class _Work:
    """One trial's claim on a supervisor, which may be cancelled from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: JailClient | None = None
        self._cancelled = False

    def ask(self, supervisor: JailClient, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if self._cancelled:
                raise SandboxError("the trial was cancelled")
            self._client = supervisor
        answer = supervisor.ask(request)
        with self._lock:
            self._client = None
            if self._cancelled:
                raise SandboxError("the trial was cancelled")
        return answer

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._client is not None:
                self._client.stop()


async def _ended(waiting: Future[Verdict]) -> None:
    """Wait for the thread of a cancelled trial, which ends as soon as its supervisor does."""
    if not waiting.cancel():
        ending = asyncio.wrap_future(waiting)
        await asyncio.wait([ending])
        if not ending.cancelled():
            ending.exception()  # of a trial that nobody waits for any more
