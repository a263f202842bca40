"""What an executor is: a map of jobs to results."""

from __future__ import annotations

from typing import Any, Protocol

Job = dict[str, Any]
"""What a supervisor is asked, as plain data that can be sent to any process and machine."""
Result = dict[str, Any]
"""What a supervisor answers, as plain data: a verdict, or `refused` or `trouble`.

`node` names the machine where it is not this one.
"""


class Executor(Protocol):
    """Maps jobs to results, several at the same time, and the same job to the same result.

    It may serve several event loops in turn, and begins anew after `close`.
    """

    async def run(self, job: Job) -> Result:
        """The result of one job.

        When it is cancelled, the job is stopped before it returns.

        Raises:
            SandboxUnavailable: jobs cannot run there at all.
            SandboxError: other trouble of ours, such as a process that is gone.
        """

    def close(self) -> None:
        """End every process; jobs that are running raise SandboxError."""
