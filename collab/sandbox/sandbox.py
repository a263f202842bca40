"""The sandbox: trials in, verdicts out, many at once; an executor runs them."""

from __future__ import annotations

import asyncio
import os
import threading

from collab.errors import SandboxError, SandboxUnavailable
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox.executor import Executor, Job, Result, processors
from collab.sandbox.verdict import Trial, Verdict
from collab.wording import counted

UNSAFE_HINT = "or, to run without isolation, give --sandbox unsafe"
_OF_THE_EXECUTOR = {"isolation", "workers"}
"""Settings that are not limits of a program."""


class Sandbox:
    """Runs untrusted programs against trusted tests, as `spec` says.

    Cheap to construct: processes start with the first trial, and again after `close`. It may serve
    several event loops in turn.

        async with Sandbox(SandboxSpec()) as sandbox:
            verdict = await sandbox.check(trial)
    """

    def __init__(self, spec: SandboxSpec | None = None) -> None:
        self.spec = spec or SandboxSpec()
        self._lock = threading.Lock()
        self._executor = Executor(self.spec.isolation, self.spec.workers)
        self._owner = os.getpid()

    async def check(self, trial: Trial) -> Verdict:
        """Run one trial.

        Raises SandboxUnavailable if the program cannot be isolated, and SandboxError for other
        failures of the sandbox, such as a test that does not parse. A program's own behaviour is
        never an error but a verdict.
        """
        return self._verdict(await self._own_executor().run(self._job(trial)))

    def close(self) -> None:
        """End every process of the sandbox; running trials raise SandboxError."""
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
                # A fork of the caller must not speak to the processes of its parent.
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
    """Describe how many programs are judged at the same time."""
    return f"{counted(spec.workers or processors(), 'program')} at a time, on this machine"
