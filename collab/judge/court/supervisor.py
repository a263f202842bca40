"""The court's main loop: one trial in, one verdict out, until the caller goes away."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, Literal, NoReturn

from . import linux, wire
from .asserts import BadTest, instrument
from .layers import ALL, MIB
from .limits import Limits
from .preload import FOR_TESTS, preload
from .referee import Case, referee
from .tally import Tally
from .warden import Warden, WardenLost

LINUX = sys.platform == "linux"
TRIAL_BYTES = 1 << 30
REPORT_BYTES = 1 << 24
READY_SECONDS = 10.0
"""For forking and sealing a worker, which is none of the program's time."""
GRACE_SECONDS = 0.3
"""After the deadline: for the referee to see that the worker is gone, and count the rest."""
POLL_SECONDS = 1.0
REFEREE_MEMORY = 1024 * MIB


def main(caller: int, isolation: str) -> None:
    """Serve trials on the standard streams for the process `caller`."""
    os.environ.clear()
    requests, replies = _take_streams()
    if isolation == "sealed":
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _leave)
    court = Court((requests, replies), Caller(caller, requests), isolation)
    preload(FOR_TESTS)
    try:
        while court.caller.wait_for_request():
            wire.send(replies, court.answer(wire.receive(requests, TRIAL_BYTES)))
    except wire.Closed:
        return
    finally:
        court.close()


def _leave(*_: object) -> NoReturn:
    sys.exit(0)


def _take_streams() -> tuple[int, int]:
    """Keep what came in as the standard streams to ourselves: a test may print."""
    requests, replies = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    return requests, replies


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > REFEREE_MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (REFEREE_MEMORY, REFEREE_MEMORY))


class Caller:
    """The process that started the court; when it is gone the court goes too."""

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

    def watch(self, report: int, seconds: float) -> bool:
        """Wait for the referee at most so long: whether it said something.

        Raises SystemExit when the caller is gone, or has given the trial up.
        """
        self._poll.register(report, select.POLLIN)
        try:
            ready = [fd for fd, _ in self._poll.poll(max(0.0, min(seconds, POLL_SECONDS)) * 1000)]
        finally:
            self._poll.unregister(report)
        if any(fd != report for fd in ready) or self.gone():
            sys.exit(0)
        return report in ready


class Court:
    """One warden, and one trial at a time."""

    def __init__(self, streams: tuple[int, int], caller: Caller, isolation: str) -> None:
        self.caller = caller
        self._streams = streams
        self._warden = Warden(ALL if isolation == "sealed" else frozenset())
        self._referee = 0

    def answer(self, trial: dict[str, Any]) -> dict[str, Any]:
        """The verdict, or what of ours was wrong: `refused` or `trouble`."""
        if self._warden.unavailable:
            return {"refused": self._warden.unavailable}
        try:
            return self._try(trial)
        except BadTest as error:
            return {"trouble": str(error)}
        except WardenLost as error:
            return {"trouble": f"the judge's warden is lost: {error}", "lost": True}

    def _try(self, trial: dict[str, Any]) -> dict[str, Any]:
        limits = Limits(**trial["limits"])
        test, assertions = instrument(trial["test"], trial["entry_point"])
        case = Case(
            trial["program"], trial["entry_point"], trial["prelude"], test, assertions, limits
        )
        tally = Tally(assertions)
        report = self._open(case)
        try:
            self._hear(report, tally, READY_SECONDS, until="ready")
            started = time.monotonic()
            if not tally.ready:
                tally.trouble = tally.trouble or f"no worker was ready within {READY_SECONDS:g} s"
            in_time = self._hear(report, tally, limits.seconds)
            if not in_time:
                tally.out_of_time(limits.seconds)
            tally.worker_status(self._warden.dismiss())
            if not in_time:
                self._hear(report, tally, GRACE_SECONDS)
        finally:
            self._end_referee()
            os.close(report)
        if tally.refused:
            return {"refused": tally.refused}
        if tally.trouble:
            return {"trouble": tally.trouble}
        return {**tally.verdict(), "seconds": time.monotonic() - started}

    def _open(self, case: Case) -> int:
        """Fork referee and worker; where the referee reports."""
        to_worker, from_worker, report = os.pipe(), os.pipe(), os.pipe()
        self._warden.admit(to_worker[0], from_worker[1], case.limits)
        os.close(to_worker[0])
        os.close(from_worker[1])
        self._referee = os.fork()
        if self._referee == 0:
            self._run_referee(case, from_worker[0], to_worker[1], report[1])
        for fd in (to_worker[1], from_worker[0], report[1]):
            os.close(fd)
        return report[0]

    def _run_referee(self, case: Case, incoming: int, outgoing: int, report: int) -> NoReturn:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if LINUX:
                linux.die_with_parent()
                _limit_memory()
            self._warden.release()
            for fd in self._streams:
                os.close(fd)
            referee(case, incoming, outgoing, report)
        finally:
            os._exit(0)

    def _hear(
        self, report: int, tally: Tally, seconds: float, until: Literal["ready", "over"] = "over"
    ) -> bool:
        """Write down what the referee reports until so far; False when time is up before."""
        deadline = time.monotonic() + seconds
        while not (tally.over or getattr(tally, until)):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not self.caller.watch(report, left):
                continue
            try:
                tally.note(wire.receive(report, REPORT_BYTES))
            except wire.Closed:
                tally.referee_ended()
        return True

    def _end_referee(self) -> None:
        if self._referee:
            with suppress(ProcessLookupError):
                os.kill(self._referee, signal.SIGKILL)
            os.waitpid(self._referee, 0)
            self._referee = 0

    def close(self) -> None:
        """End every process below this one, and wait for each."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._end_referee()
        with suppress(ProcessLookupError):
            os.kill(self._warden.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                os.wait()
