"""The process that a supervisor serves, and what the supervisor waits for."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable

POLL_SECONDS = 1.0
_DRAINED_BYTES = 1 << 16


class Caller:
    """The process that started the supervisor; when it is gone the supervisor goes too."""

    def __init__(self, pid: int, requests: int) -> None:
        self._pid, self.requests = pid, requests
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        if os.getppid() != pid:
            sys.exit(0)
        # The pipe alone would not do: a fork of the caller's may hold its other end open.
        if hasattr(os, "pidfd_open"):
            self._watched = os.pidfd_open(pid)
            self._poll.register(self._watched, select.POLLIN)

    def gone(self) -> bool:
        return os.getppid() != self._pid

    def wait_for_request(self) -> bool:
        """Wait until something comes; False when the caller is gone."""
        while not self._poll.poll(POLL_SECONDS * 1000):
            if self.gone():
                return False
        return not self.gone()

    def watch(self, report: int, outputs: Outputs, seconds: float) -> bool:
        """Wait for the test runner at most so long: whether it said something.

        Meanwhile `outputs` are emptied. Raises SystemExit when the caller is gone, or has given the
        trial up.
        """
        own = {report, *outputs.open}
        for fd in own:
            self._poll.register(fd, select.POLLIN)
        try:
            ready = {fd for fd, _ in self._poll.poll(max(0.0, min(seconds, POLL_SECONDS)) * 1000)}
        finally:
            for fd in own:
                self._poll.unregister(fd)
        if ready - own or self.gone():
            sys.exit(0)
        outputs.empty(ready & outputs.open)
        return report in ready


class Outputs:
    """Pipes with what the processes of a trial print, which nobody is to see."""

    def __init__(self, *fds: int) -> None:
        self.open = set(fds)

    def empty(self, ready: Iterable[int]) -> None:
        """Read off what there is in those of the pipes that are ready, and close ended ones."""
        for fd in ready:
            if not os.read(fd, _DRAINED_BYTES):
                os.close(fd)
                self.open.remove(fd)

    def close(self) -> None:
        for fd in self.open:
            os.close(fd)
        self.open.clear()
