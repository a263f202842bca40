"""The process that a supervisor serves, and the events that the supervisor waits for."""

from __future__ import annotations

import os
import select
import sys

POLL_SECONDS = 1.0
_DRAIN_BYTES = 1 << 16


class Caller:
    """The process that started the supervisor. When it ends, the supervisor ends too."""

    def __init__(self, pid: int, requests: int) -> None:
        self._pid = pid
        self.descriptors = [requests]
        """Descriptors that are ready when a request arrives, or the caller has ended."""
        if self.has_ended():
            sys.exit(0)
        # The pipe alone is not enough: a fork of the caller may hold its other end open.
        if hasattr(os, "pidfd_open"):
            self.descriptors.append(os.pidfd_open(pid))
        self._poll = _make_poll(*self.descriptors)

    def has_ended(self) -> bool:
        """Return True if the process that started the supervisor has ended."""
        return os.getppid() != self._pid

    def wait_for_request(self) -> bool:
        """Wait for a request, and return False if the caller has ended."""
        while not self._poll.poll(POLL_SECONDS * 1000):
            if self.has_ended():
                return False
        return not self.has_ended()


class Events:
    """Events that the supervisor waits for during one trial. `report` is the test runner's pipe.

    `printed` are pipes with the output of the trial's processes, which is discarded.
    """

    def __init__(self, caller: Caller, report: int, *printed: int) -> None:
        self._caller, self._report = caller, report
        self._printed = set(printed)
        self._poll = _make_poll(*caller.descriptors, report, *printed)

    def wait_for_report(self, seconds: float) -> bool:
        """Wait for the test runner for a limited time, and return True if its pipe is ready.

        Printed output is drained meanwhile.

        Raises:
            SystemExit: the caller has ended, or has canceled the trial.
        """
        ready = {fd for fd, _ in self._poll.poll(max(0.0, min(seconds, POLL_SECONDS)) * 1000)}
        if not ready.isdisjoint(self._caller.descriptors) or (
            not ready and self._caller.has_ended()
        ):
            sys.exit(0)
        for fd in ready & self._printed:
            self._drain(fd)
        return self._report in ready

    def _drain(self, fd: int) -> None:
        """Discard the content of a pipe, and close the pipe at its end."""
        if not os.read(fd, _DRAIN_BYTES):
            self._poll.unregister(fd)
            self._printed.remove(fd)
            os.close(fd)

    def close(self) -> None:
        """Release the trial's pipes."""
        for fd in (self._report, *self._printed):
            os.close(fd)


def _make_poll(*fds: int) -> select.poll:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return poll
