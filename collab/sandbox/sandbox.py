"""The sandbox: trials in, verdicts out, many at once, each in a supervisor of a small pool.

Threads wait for the supervisors, so the event loop never does.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from collab.errors import SandboxError, SandboxUnavailable
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox.client import JailClient
from collab.sandbox.verdict import Trial, Verdict
from collab.threads import wait_for_job
from collab.wording import counted

CORRECT_TRIAL = Trial(
    program="def f(n):\n    return n + 1",
    entry_point="f",
    test="def check(candidate):\n    assert candidate(1) == 2",
)
"""A trial that every working sandbox passes, so it shows whether programs can be isolated here."""


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
        self._owner = os.getpid()
        self._idle: list[JailClient] = []
        self._busy: dict[_Job, JailClient] = {}
        self._threads: ThreadPoolExecutor | None = None
        """One thread per supervisor, or None if the sandbox is closed."""

    async def check(self, trial: Trial) -> Verdict:
        """Run one trial, and return its verdict. If this call is canceled, it first stops the
        trial.

        A program's own behavior leads to a verdict, never to an error.

        Raises:
            SandboxUnavailable: the program cannot be isolated.
            SandboxError: the sandbox fails in another way, e.g. because a test does not parse.
        """
        limits = self.spec.model_dump(exclude={"isolation", "workers"})
        job = _Job({**trial.model_dump(), "limits": limits})
        with self._lock:
            self._drop_parent_state()
            if self._threads is None:
                self._threads = ThreadPoolExecutor(
                    self.spec.workers or processor_count(), "sandbox"
                )
            job_future = self._threads.submit(self._run_job, job, self._threads)
        await wait_for_job(job_future, partial(self._cancel, job))
        if job_future.cancelled():  # by `close`, not by the caller
            raise _closed_error()
        return self._make_verdict(job_future.result())

    def close(self) -> None:
        """End every process of the sandbox. Running trials raise SandboxError."""
        with self._lock:
            self._drop_parent_state()
            threads, self._threads = self._threads, None
            supervisors = [*self._idle, *self._busy.values()]
            self._idle.clear()
        for supervisor in supervisors:
            supervisor.stop()
        if threads is not None:
            threads.shutdown(wait=True, cancel_futures=True)
        for supervisor in supervisors:
            supervisor.end()

    async def aclose(self) -> None:
        """Close the sandbox without blocking the event loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def _drop_parent_state(self) -> None:
        """In a fork of the caller, let go of its parent's processes and threads."""
        if self._owner != os.getpid():
            self._owner, self._threads = os.getpid(), None
            self._idle, self._busy = [], {}

    def _run_job(self, job: _Job, threads: ThreadPoolExecutor) -> dict[str, Any]:
        with self._lock:
            supervisor = self._idle.pop() if self._idle else None
        if supervisor is not None and not supervisor.is_alive:
            supervisor.end()
            supervisor = None
        supervisor = supervisor or JailClient(self.spec.isolation)
        with self._lock:
            is_open = self._threads is threads and not job.is_canceled
            if is_open:
                self._busy[job] = supervisor
        if not is_open:  # it was closed in the meantime, without this supervisor
            supervisor.end()
            raise _closed_error()
        has_answered = False
        try:
            answer = supervisor.ask(job.request)
            has_answered = True
        finally:
            with self._lock:
                del self._busy[job]
                is_free = has_answered and self._threads is threads and not job.is_canceled
                if is_free:
                    self._idle.append(supervisor)
            if not is_free:
                supervisor.end()
        return answer

    def _cancel(self, job: _Job) -> None:
        with self._lock:
            job.is_canceled = True
            if job in self._busy:
                self._busy[job].stop()

    def _make_verdict(self, result: dict[str, Any]) -> Verdict:
        if refused := result.get("refused"):
            raise SandboxUnavailable(
                f"programs cannot be isolated here: the layer `{refused['layer']}` is not"
                f" available ({refused['reason']}); {refused['remedy']}; or, to run without"
                " isolation, use --sandbox unsafe (in Python: isolation='unsafe')"
            )
        if "trouble" in result:
            raise SandboxError(result["trouble"])
        return Verdict(**result, isolation=self.spec.isolation)


@dataclass(eq=False)
class _Job:
    """A request to a supervisor. Once it is canceled, its supervisor takes no other."""

    request: dict[str, Any]
    is_canceled: bool = False


def _closed_error() -> SandboxError:
    return SandboxError(
        "the sandbox was closed before the trial started; the next trial opens it again"
    )


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def describe_concurrency(spec: SandboxSpec) -> str:
    """Return text that says how many programs run at the same time."""
    return f"{counted(spec.workers or processor_count(), 'program')} at a time, on this machine"
