"""Runs the work of a trial before the first fork.

The interpreter specializes a function after several runs. Doing this once, before the fork, saves
it for the processes of all trials.
"""

from __future__ import annotations

import os
from typing import Any

from . import wire
from .limits import Limits
from .remote_function import Line
from .result import TrialResult
from .test_runner import Case, Tell, run_case
from .worker import LOADED, SEALED, Untreated, reply

TIMES = 16
"""Twice the number of runs before the interpreter specializes a function."""
FRAME_BYTES = 1 << 16
LIMITS = Limits(
    seconds=1,
    cpu_seconds=1,
    memory_mb=1,
    answer_bytes=FRAME_BYTES,
    depth=8,
    threads=1,
    disk_mb=1,
)
TEST = """
def check(candidate):
    assert candidate([1, 2.5], "a") == [[1, 2.5], "a"], "a list"
    assert candidate({"a": (1, None)}, {True}) == [{"a": (1, None)}, {True}]
    assert candidate(1, -1) != [1, 1]
    for number in range(2):
        assert abs(candidate(number, 0)[0] - number) < 1e-6
"""
CASE = Case(program="", entry_point="f", prelude="import math", test=TEST, limits=LIMITS)


def warm_up() -> None:
    """Run a trial within this process several times, with a built-in program and test."""
    for _ in range(TIMES):
        run_trial()


def run_trial() -> dict[str, Any]:
    """Run one trial and return its verdict."""
    result = TrialResult()
    calls, answers, reports = os.pipe(), os.pipe(), os.pipe()

    reader = wire.Reader(reports[0], FRAME_BYTES)

    def tell(message: object) -> None:
        wire.send(reports[1], message)
        result.note(reader.receive())

    try:
        run_case(CASE, _Within(calls, answers, tell), tell)
        return result.verdict()
    finally:
        for fd in (*calls, *answers, *reports):
            os.close(fd)


class _Within(Line):
    """A line to a worker in this very process, which has loaded a built-in function."""

    def __init__(self, calls: tuple[int, int], answers: tuple[int, int], tell: Tell) -> None:
        super().__init__(answers[0], calls[1], LIMITS, tell)
        self._calls, self._answers = wire.Reader(calls[0], FRAME_BYTES), answers[1]
        wire.send(self._answers, SEALED)

    def send(self, message: object) -> None:
        super().send(message)
        frame = self._calls.receive()
        wire.send(self._answers, self._reply(frame) if "id" in frame else LOADED)

    def _reply(self, call: Any) -> dict[str, Any]:
        return reply(lambda *values: list(values), call, LIMITS, Untreated())
