"""The supervisor's main loop: one trial in, one verdict out, until the caller ends."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, Literal, NoReturn

from . import wire
from .caller import Caller, Events
from .layers import linux
from .layers.stack import ALL_LAYERS
from .limits import Limits
from .preload import preload
from .processes import Jail
from .result import TrialResult
from .test_runner import Case, run_test
from .worker import run_worker
from .zygote import Zygote

REPORT_BYTES = 1 << 24
READY_SECONDS = 10.0
"""Seconds for forking and sealing a worker, which do not count as the program's time."""
GRACE_SECONDS = 0.3
"""Seconds after the deadline for the test runner to notice the worker's end, and count the rest."""
RUNNER_MB = 1024
RUNNER_THREADS = 16
SHARED_LAYERS = frozenset({"namespaces", "root", "landlock", "capabilities"})
"""Layers that all test runners of a supervisor share."""
MAX_CACHED_COUNTS = 1024
_REPEATING_STATEMENTS = re.compile(r"^\s*(?:async|for|while|def|class)\b", re.MULTILINE)
"""Statements below which an assert may be evaluated more than once, including `check` itself."""


def main(caller: int, isolation: str) -> None:
    """Serve trials on the standard streams for the process `caller`."""
    os.environ.clear()
    requests, replies = _take_streams()
    if isolation == "sealed":
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    # From here on, no file of Python may be needed: a jail has none, and without root the
    # interpreter's own folder may be unreadable.
    preload()
    gc.collect()
    gc.freeze()  # so that forked processes share this memory
    supervisor = Supervisor(Caller(caller, requests), isolation)
    trials = wire.Reader(requests, wire.TRIAL_BYTES)
    try:
        while supervisor.caller.wait_for_request():
            wire.send(replies, supervisor.answer(trials.receive()))
    except wire.Closed:
        return
    finally:
        supervisor.close()


def _exit_on_signal(*_: object) -> NoReturn:
    # Only once: a second signal must not keep `close` from ending the child processes.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _take_streams() -> tuple[int, int]:
    """Take over the standard streams for the supervisor's own use."""
    requests, replies = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)
    return requests, replies


class Supervisor:
    """Owns two zygotes, and runs one trial at a time."""

    def __init__(self, caller: Caller, isolation: str) -> None:
        self.caller = caller
        layers = ALL_LAYERS if isolation == "sealed" else frozenset[str]()
        self._workers = Zygote(Jail(layers), run_worker)
        self._runners = Zygote(Jail(layers, SHARED_LAYERS), run_test, self._workers)
        self._cached_counts = lru_cache(MAX_CACHED_COUNTS)(self._count_with_stand_ins)

    def answer(self, trial: dict[str, Any]) -> dict[str, Any]:
        """Return the verdict, or `refused` or `trouble`. A lost zygote ends the supervisor."""
        if refused := self._workers.unavailable or self._runners.unavailable:
            return {"refused": refused}
        case = Case(**{**trial, "limits": Limits(**trial["limits"])})
        return self._run_trial(case, self._count_evaluations(case))

    def _count_evaluations(self, case: Case) -> list[int | None]:
        """Count the evaluations of each assert, if the syntax tree leaves them open."""
        if len(_REPEATING_STATEMENTS.findall(case.test)) <= 1:
            return []
        return self._cached_counts(replace(case, counts_only=True, program="", treatment=None))

    def _count_with_stand_ins(self, case: Case) -> list[int | None]:
        result = TrialResult()
        with _Trial(self.caller, self._runners, case) as trial:
            self._read_reports(trial, result, case.limits.seconds)
        return result.counts

    def _run_trial(self, case: Case, counts: list[int | None]) -> dict[str, Any]:
        result = TrialResult(counts)
        with _Trial(self.caller, self._runners, case, self._workers) as trial:
            came = self._read_reports(trial, result, READY_SECONDS, until="ready")
            started = time.monotonic()
            if not result.ready:
                why = "the test runner ended before a worker was ready; check `ulimit -a`"
                late = f"no worker was ready within {READY_SECONDS:g} s"
                result.trouble = result.trouble or (why if came else late)
            in_time = self._read_reports(trial, result, case.limits.seconds)
            if in_time:
                trial.end(self._runners)
            else:
                result.record_timeout(case.limits.seconds)
            trial.end(self._workers)
            result.record_worker_status(self._workers.read_status())
            if not in_time:
                self._read_reports(trial, result, GRACE_SECONDS)
                trial.end(self._runners)
            result.record_runner_status(self._runners.read_status())
        if result.refused:
            return {"refused": result.refused}
        if result.trouble:
            return {"trouble": result.trouble}
        return {**result.verdict(), "seconds": time.monotonic() - started}

    def _read_reports(
        self,
        trial: _Trial,
        result: TrialResult,
        seconds: float,
        until: Literal["ready", "is_over"] = "is_over",
    ) -> bool:
        """Record the test runner's reports up to a time, and return False if time runs out
        first."""
        deadline = time.monotonic() + seconds
        while not (result.is_over or getattr(result, until)):
            if trial.reports.is_complete:
                result.add_frame(trial.reports.receive())
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            try:
                if trial.events.wait_for_report(left):
                    trial.reports.read()
            except wire.Closed:
                result.record_runner_end()
        return True

    def close(self) -> None:
        """End every child process, and wait for each."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for zygote in (self._workers, self._runners):
            zygote.end()
        with suppress(ChildProcessError):
            while True:
                os.wait()


class _Trial:
    """The processes of one trial and their pipes. Without `workers` there is only a test runner."""

    reports: wire.Reader
    """Reports of the test runner, open while the trial is entered."""
    events: Events
    """Events of the trial, and its discarded output, open while the trial is entered."""

    def __init__(
        self, caller: Caller, runners: Zygote, case: Case, workers: Zygote | None = None
    ) -> None:
        self._caller, self._runners, self._case, self._workers = caller, runners, case, workers
        self._running: list[Zygote] = []

    def __enter__(self) -> _Trial:
        case, to_worker, from_worker, report, messages, printed = (os.pipe() for _ in range(6))
        self.reports = wire.Reader(report[0], REPORT_BYTES)
        self.events = Events(self._caller, report[0], messages[0], printed[0])
        child_fds = [case[0], *to_worker, *from_worker, report[1], messages[1], printed[1]]
        try:
            if self._workers:
                limits = self._case.limits
                self._admit(self._workers, limits, printed[1], to_worker[0], from_worker[1])
            limits = replace(  # a test may run as long as the trial
                self._case.limits,
                cpu_seconds=self._case.limits.seconds + READY_SECONDS,
                memory_mb=RUNNER_MB,
                threads=RUNNER_THREADS,
                disk_mb=0,
            )
            fds = (messages[1], case[0], from_worker[0], to_worker[1], report[1])
            self._admit(self._runners, limits, *fds)
        finally:
            for fd in child_fds:
                os.close(fd)
        try:
            with suppress(wire.Closed):  # it ended at once; its report says so
                wire.send(case[1], asdict(self._case))
        finally:
            os.close(case[1])
        return self

    def _admit(self, zygote: Zygote, limits: Limits, *fds: int) -> None:
        zygote.start_process(fds, limits)
        self._running.append(zygote)

    def end(self, zygote: Zygote) -> None:
        """Kill the process of one of the two zygotes. The zygote then gives its status."""
        self._running.remove(zygote)
        zygote.kill_process()

    def __exit__(self, *_: object) -> None:
        self.events.close()
        for zygote in list(self._running):
            self.end(zygote)
            zygote.read_status()
