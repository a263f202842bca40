"""What the court writes down of a trial while the referee reports."""

from __future__ import annotations

import os
import signal
from typing import Any

from .asserts import Assertion

KEPT_CHECKS = 1000
"""A verdict lists so many checks; all are counted."""


class Tally:
    """The checks of one trial, and how it ended."""

    def __init__(self, assertions: tuple[Assertion, ...]) -> None:
        self._assertions = assertions
        self._reached: set[int] = set()
        self._held = 0
        self._total = 0
        self._checks: list[dict[str, Any]] = []
        self._flags: list[str] = []
        self.ready = False
        """The worker is sealed and waits for the program."""
        self.loaded = False
        self.done = False
        self.error: str | None = None
        self.trouble: str | None = None
        self.refused: dict[str, str] | None = None

    def note(self, frame: dict[str, Any]) -> None:
        """Take one frame of the referee's."""
        frame = {k: _printable(v) if isinstance(v, str) else v for k, v in frame.items()}
        if "check" in frame:
            self._check(frame)
        elif "flag" in frame:
            self._signs(frame["flag"], frame.get("reason"))
        elif "ready" in frame:
            self.ready = True
        elif "loaded" in frame:
            self.loaded = True
        elif "failed" in frame:
            self.error = self.error or frame["failed"]
        elif "done" in frame:
            self._finish(frame["error"])
        else:
            self.trouble = frame.get("trouble")
            self.refused = frame.get("refused")

    @property
    def over(self) -> bool:
        """Whether nothing more will be reported."""
        return self.done or self.trouble is not None or self.refused is not None

    def referee_ended(self) -> None:
        """The referee broke off: at what the program returned, as far as one can tell."""
        if not self.over:
            self.flag("referee_died")
            self._finish("the referee ended before the test did")

    def _check(self, frame: dict[str, Any]) -> None:
        self._reached.add(frame["check"])
        self._add(frame["check"], frame)

    def _add(self, number: int, frame: dict[str, Any]) -> None:
        held = bool(frame["held"]) and self.loaded
        self._total += 1
        self._held += held
        if len(self._checks) < KEPT_CHECKS:
            assertion = self._assertions[number]
            sides = {name: frame.get(name) for name in ("expected", "got", "error")}
            self._checks.append(
                {"line": assertion.line, "source": assertion.source, "held": held, **sides}
            )

    def _finish(self, error: str | None) -> None:
        self.done = True
        if error is not None:
            self._escape(error)

    def _escape(self, error: str) -> None:
        """Something other than an assert ended the test: one more failed test."""
        self._total += 1
        self.error = self.error or error

    def _signs(self, flag: str, reason: str | None) -> None:
        if flag == "worker_died" and "time_limit" in self._flags:
            return  # it was we who ended it
        self.flag(flag)
        self.error = self.error or reason

    def flag(self, name: str) -> None:
        if name not in self._flags:
            self._flags.append(name)

    def out_of_time(self, seconds: float) -> None:
        self.flag("time_limit")
        self.error = f"time limit of {seconds:g} s reached"

    def worker_status(self, status: int) -> None:
        """Take the status that the worker ended with."""
        if not os.WIFSIGNALED(status):
            return
        number = os.WTERMSIG(status)
        if number == signal.SIGSYS:
            self.flag("denied_system_call")
            self.error = "the worker was killed at a denied system call"
        elif "worker_died" in self._flags:
            name = signal.Signals(number).name
            why = " (limit of processor time or memory)" if number == signal.SIGKILL else ""
            self.error = f"the worker died of {name}{why}"

    def verdict(self) -> dict[str, Any]:
        """The verdict's fields, all but isolation and seconds."""
        for number, assertion in enumerate(self._assertions):
            if number not in self._reached and not assertion.conditional:
                self._add(number, {"held": False, "error": "not reached"})
        clean = self.done and self.error is None
        everything = self._total >= 1 and self._held == self._total
        return {
            "passed": self.loaded and clean and everything,
            "tests": {"passed": self._held, "total": self._total},
            "checks": self._checks,
            "loaded": self.loaded,
            "error": self.error,
            "flags": self._flags,
        }


def _printable(text: str) -> str:
    """A program may put lone surrogates in its messages; JSON and files refuse them."""
    return text.encode("utf-8", "backslashreplace").decode()
