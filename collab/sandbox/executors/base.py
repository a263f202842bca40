"""The interface of an executor: it maps jobs to results."""

from __future__ import annotations

from typing import Any, Protocol

Job = dict[str, Any]
"""A request to a supervisor, as plain data that can be sent to any process and machine."""
Result = dict[str, Any]
"""The answer of a supervisor, as plain data: a verdict, or `refused` or `trouble`.

`node` names the machine if it is not this one.
"""


class Executor(Protocol):
    """Maps jobs to results, several at the same time, and the same job to the same result.

    It may serve several event loops in turn, and restarts after `close`.
    """

    async def run(self, job: Job) -> Result:
        """Return the result of one job. If it is cancelled, the job is stopped before it returns.

        Raises:
            SandboxUnavailable: jobs cannot run there at all.
            SandboxError: another failure of the sandbox, such as a lost process.
        """

    def close(self) -> None:
        """End every process; running jobs raise SandboxError."""
