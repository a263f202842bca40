"""The sandbox: trials in, verdicts out, many at once, each in a supervisor of a small pool.

Threads wait for the supervisors, so the event loop never does.
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
from collab.wording import counted

Job = dict[str, Any]
"""A request to a supervisor, as plain data."""
Result = dict[str, Any]
"""The answer of a supervisor, as plain data: a verdict, or `refused` or `trouble`."""


class Executor:
    """Runs at most `workers` jobs at the same time, each in its own process. Default: one per
    processor.

    An executor may serve several event loops in turn, and restarts after `close`.
    """

    def __init__(self, isolation: str, workers: int = 0) -> None:
        self._isolation, self._workers = isolation, workers or processors()
        self._lock = threading.Lock()
        self._idle: list[JailClient] = []
        self._busy: set[JailClient] = set()
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, job: Job) -> Result:
        """Return the result of one job. If this call is canceled, it first stops the job.

        Raises:
            SandboxError: the sandbox failed, e.g. lost a process.
        """
        work = _Work()
        waiting = self._submit(job, work)
        ending = asyncio.wrap_future(waiting)
        try:
            await asyncio.wait([ending])
        except asyncio.CancelledError:
            work.cancel()
            await _ended(waiting, ending)
            raise
        if ending.cancelled():  # by `close`, not by the caller
            raise _closed()
        return ending.result()

    def close(self) -> None:
        """End every process. Running jobs raise SandboxError."""
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

    def _submit(self, job: Job, work: _Work) -> Future[Result]:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._workers, "sandbox")
            return self._threads.submit(self._run, job, work, self._threads)

    def _run(self, job: Job, work: _Work, threads: ThreadPoolExecutor) -> Result:
        supervisor = self._take(threads)
        try:
            answer = work.ask(supervisor, job)
        except BaseException:
            with self._lock:
                self._busy.discard(supervisor)
            supervisor.end()
            raise
        self._give_back(supervisor, threads)
        return answer

    def _take(self, threads: ThreadPoolExecutor) -> JailClient:
        with self._lock:
            supervisor = self._idle.pop() if self._idle else None
        if supervisor is not None and not supervisor.alive:
            supervisor.end()
            supervisor = None
        supervisor = supervisor or JailClient(self._isolation)
        with self._lock:
            is_open = self._threads is threads
            if is_open:
                self._busy.add(supervisor)
        if not is_open:  # it was closed in the meantime, without this supervisor
            supervisor.end()
            raise _closed()
        return supervisor

    def _give_back(self, supervisor: JailClient, threads: ThreadPoolExecutor) -> None:
        with self._lock:
            self._busy.discard(supervisor)
            is_open = self._threads is threads
            if is_open:
                self._idle.append(supervisor)
        if not is_open:
            supervisor.end()


class _Work:
    """One job's claim on a supervisor, which may be canceled from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: JailClient | None = None
        self._cancelled = False

    def ask(self, supervisor: JailClient, job: Job) -> Result:
        with self._lock:
            if self._cancelled:
                raise SandboxError("the trial was canceled")
            self._client = supervisor
        answer = supervisor.ask(job)
        with self._lock:
            self._client = None
            if self._cancelled:
                raise SandboxError("the trial was canceled")
        return answer

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._client is not None:
                self._client.stop()


async def _ended(waiting: Future[Result], ending: asyncio.Future[Result]) -> None:
    """Wait for the thread of a canceled job, which ends together with its supervisor."""
    if not waiting.cancel():
        await asyncio.wait([ending])
        if not ending.cancelled():
            ending.exception()  # nobody waits for this job anymore


def _closed() -> SandboxError:
    return SandboxError(
        "the sandbox was closed before the trial started; the next trial opens it again"
    )


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


UNSAFE_HINT = "or, to run without isolation, use --sandbox unsafe"
_OF_THE_EXECUTOR = {"isolation", "workers"}
"""Settings that are not limits of a program."""


class Sandbox:
    """Runs untrusted programs against trusted tests, as `spec` says.

    Construction is cheap, because processes start with the first trial. They start again after a
    `close`. A sandbox may serve several event loops in turn.

        async with Sandbox(SandboxSpec()) as sandbox:
            verdict = await sandbox.check(trial)
    """

    def __init__(self, spec: SandboxSpec | None = None) -> None:
        self.spec = spec or SandboxSpec()
        self._lock = threading.Lock()
        self._executor = Executor(self.spec.isolation, self.spec.workers)
        self._owner = os.getpid()

    async def check(self, trial: Trial) -> Verdict:
        """Run one trial, and return its verdict.

        A program's own behavior leads to a verdict, never to an error.

        Raises:
            SandboxUnavailable: the program cannot be isolated.
            SandboxError: the sandbox fails in another way, e.g. because a test does not parse.
        """
        return self._verdict(await self._own_executor().run(self._job(trial)))

    def close(self) -> None:
        """End every process of the sandbox. Running trials raise SandboxError."""
        self._own_executor().close()

    async def aclose(self) -> None:
        """Close the sandbox without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def _own_executor(self) -> Executor:
        with self._lock:
            if self._owner != os.getpid():
                # A fork of the caller must not talk to its parent's processes.
                self._owner = os.getpid()
                self._executor = Executor(self.spec.isolation, self.spec.workers)
            return self._executor

    def _job(self, trial: Trial) -> Job:
        return {
            "program": trial.program,
            "entry_point": trial.entry_point,
            "test": trial.test,
            "prelude": trial.prelude,
            "treatment": trial.treatment.model_dump() if trial.treatment else None,
            "limits": self.spec.model_dump(exclude=_OF_THE_EXECUTOR),
        }

    def _verdict(self, result: Result) -> Verdict:
        if refused := result.get("refused"):
            raise SandboxUnavailable(
                f"programs cannot be isolated here: the layer `{refused['layer']}` is not"
                f" available ({refused['reason']}); {refused['remedy']}; {UNSAFE_HINT}"
            )
        if "trouble" in result:
            raise SandboxError(result["trouble"])
        return Verdict(**result, isolation=self.spec.isolation)


def judging(spec: SandboxSpec) -> str:
    """Return text that says how many programs are judged at the same time."""
    return f"{counted(spec.workers or processors(), 'program')} at a time, on this machine"
