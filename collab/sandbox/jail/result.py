"""Records a trial in the supervisor while the test runner reports.

The total comes from the test, never from the program: from the syntax tree, or from a run with a
stand-in for the program (`assert_counts`). Checks that a trial did not reach count as failed.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .asserts import Assertion

MAX_LISTED_CHECKS = 1000
"""Maximum number of checks that a verdict lists. All are counted."""


class TrialResult:
    """The checks of one trial, and its ending.

    `counts` are the evaluations of each assert, or None if they are not known in advance.
    """

    def __init__(self, counts: Sequence[int | None] = ()) -> None:
        self.counts = list(counts)
        self._assertions: list[Assertion] = []
        self._evaluated: Counter[int] = Counter()
        self._failed: Counter[int] = Counter()
        self._escaped = False
        self._checks: list[dict[str, Any]] = []
        self._flags: list[str] = []
        self.ready = False
        """True if the worker is sealed and waits for the program."""
        self.loaded = False
        self.called = False
        """True if the test has called the program."""
        self.done = False
        self.error: str | None = None
        self.returned: str | None = None
        self.trouble: str | None = None
        self.refused: dict[str, str] | None = None

    def add_frame(self, frame: dict[str, Any]) -> None:
        """Add one frame of the test runner to the result."""
        frame = {k: _printable(v) if isinstance(v, str) else v for k, v in frame.items()}
        if "check" in frame:
            self._add_check(frame)
        elif "asserts" in frame:
            self._assertions = [Assertion(**fields) for fields in frame["asserts"]]
        elif "counts" in frame:
            self.counts, self.done = frame["counts"], True
        elif "flag" in frame:
            self._add_worker_flag(frame["flag"], frame.get("reason"))
        elif "ready" in frame:
            self.ready = True
        elif "loaded" in frame:
            self.loaded = True
        elif "called" in frame:
            self.called = True
        elif "failed" in frame:
            self.error = self.error or frame["failed"]
        elif "done" in frame:
            self._finish(frame["error"])
            self.returned = frame["returned"]
        else:
            self.trouble = frame.get("trouble")
            self.refused = frame.get("refused")

    @property
    def is_over(self) -> bool:
        """True if nothing more will be reported."""
        return self.done or self.trouble is not None or self.refused is not None

    def record_runner_end(self) -> None:
        """Record that the test runner stopped early, presumably because of a value from the
        program.
        """
        if not self.is_over:
            self.add_flag("test_runner_died")
            self._finish("the test runner ended before the test did")

    def record_runner_status(self, status: int) -> None:
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS:
            self.error = "the test was killed at a denied system call"
            if not self.called:
                self.trouble = f"{self.error}; tests run sealed, as programs do"

    def _add_check(self, frame: dict[str, Any]) -> None:
        number = frame["check"]
        depends_on_program = self._assertions[number].depends_on_program
        held = bool(frame["held"]) and (self.loaded or not depends_on_program)
        self._evaluated[number] += 1
        self._failed[number] += not held
        if depends_on_program or not held:
            self._list_check(number, held, frame)

    def _list_check(self, number: int, held: bool, frame: dict[str, Any]) -> None:
        if len(self._checks) < MAX_LISTED_CHECKS:
            assertion = self._assertions[number]
            sides = {name: frame.get(name) for name in ("expected", "got", "error", "answer")}
            self._checks.append(
                {"line": assertion.line, "source": assertion.source, "held": held, **sides}
            )

    def _finish(self, error: str | None) -> None:
        self.done = True
        if error is not None:
            self._escaped = True
            self.error = self.error or error

    def _add_worker_flag(self, flag: str, reason: str | None) -> None:
        if flag == "worker_died" and "time_limit" in self._flags:
            return  # the sandbox ended it
        self.add_flag(flag)
        self.error = self.error or reason

    def add_flag(self, name: str) -> None:
        """Add a flag of the verdict, once."""
        if name not in self._flags:
            self._flags.append(name)

    def record_timeout(self, seconds: float) -> None:
        """Record that the trial reached its time limit."""
        self.add_flag("time_limit")
        self.error = f"time limit of {seconds:g} s reached"

    def record_worker_status(self, status: int) -> None:
        if not os.WIFSIGNALED(status):
            return
        number = os.WTERMSIG(status)
        if number == signal.SIGSYS:
            self.add_flag("denied_system_call")
            self.error = "the worker was killed at a denied system call"
        elif "worker_died" in self._flags:
            name = signal.Signals(number).name
            why = " (limit of processor time or memory)" if number == signal.SIGKILL else ""
            self.error = f"the worker died of {name}{why}"

    def verdict(self) -> dict[str, Any]:
        """Return the verdict's fields, except isolation and seconds."""
        numbers = range(len(self._assertions))
        shares = [self._test_counts(number) for number in numbers]
        held, total = sum(share[0] for share in shares), sum(share[1] for share in shares)
        missed = [number for number in numbers if self._is_missed(number)]
        for number in missed:
            self._list_check(number, False, {"error": "not reached"})
        clean = self.loaded and self.done and self.error is None
        counting = any(self._assertions[n].depends_on_program for n in self._evaluated)
        passed = clean and not missed and not self._failed.total() and counting
        if passed:
            held = total
        elif held == total > 0 or (self._escaped and not any(map(self._may_be_cut_short, numbers))):
            total += 1  # something other than an assert failed
        return {
            "passed": passed,
            "tests": {"passed": held, "total": total},
            "checks": self._checks,
            "loaded": self.loaded,
            "error": self.error,
            "returned": self.returned,
            "flags": self._flags,
        }

    def _may_be_cut_short(self, number: int) -> bool:
        """Return True if the event that ended the test may have taken the place of this assert."""
        assertion = self._assertions[number]
        straight = assertion.required and not assertion.repeats
        due = 1 if (known := self._known_evaluations(number)) is None else known
        return assertion.depends_on_program and not straight and self._evaluated[number] < due

    @property
    def _ran_to_end(self) -> bool:
        """True if the test, and therefore every loop in it, ran to its end."""
        return self.done and not self._escaped

    def _is_missed(self, number: int) -> bool:
        """Return True if an assert was never evaluated although it should have been."""
        assertion = self._assertions[number]
        if self._evaluated[number] or not assertion.depends_on_program:
            return False
        return assertion.required or (not self._ran_to_end and self._known_evaluations(number) != 0)

    def _test_counts(self, number: int) -> tuple[int, int]:
        """Return the number of passed tests of an assert, and the number of tests that it counts
        as.
        """
        assertion = self._assertions[number]
        evaluated, failed = self._evaluated[number], self._failed[number]
        if not assertion.depends_on_program:
            return 0, failed
        known = self._known_evaluations(number)
        if not evaluated:
            due = self._is_missed(number) or not (assertion.optional or known == 0)
            return 0, (known or 1) if due else 0
        if not known:
            # One test. All of its evaluations must hold, and none may be missing.
            whole = evaluated >= (self._stand_in_count(number) or 0)
            whole = whole and (self._ran_to_end or not assertion.repeats)
            return int(not failed and whole), 1
        return min(evaluated - failed, max(0, known - failed)), max(known, failed)

    def _known_evaluations(self, number: int) -> int | None:
        """Return the number of evaluations of an assert if it is known and does not depend on the
        program.
        """
        assertion = self._assertions[number]
        if not assertion.repeats:
            return 1
        return None if assertion.in_branch else self._stand_in_count(number)

    def _stand_in_count(self, number: int) -> int | None:
        """Return the number of evaluations of an assert with stand-ins for the program, if they
        agree."""
        return self.counts[number] if number < len(self.counts) else None


def _printable(text: str) -> str:
    """Return printable text: a program's messages may hold lone surrogates, which JSON and files
    refuse."""
    return text.encode("utf-8", "backslashreplace").decode()
