"""The referee: runs the trusted test, and asks the worker for every answer.

It is a process of its own, for what a candidate returned may make one comparison run for ever;
the court then ends it. It reports every check at once, so that what was seen counts.

Frames to the court: `ready`, `loaded`, `failed`, `check`, `flag`, `refused`, `trouble`, `done`.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from . import wire
from .asserts import REFEREE, Assertion
from .candidate import Candidate, CandidateError, Line, Trouble
from .limits import Limits

SHOWN_CHARACTERS = 200


@dataclass(frozen=True)
class Case:
    """One trial, as the referee needs it."""

    program: str
    entry_point: str
    prelude: str
    test: CodeType
    assertions: tuple[Assertion, ...]
    limits: Limits


class Referee:
    """What an instrumented test calls at each assert."""

    def __init__(self, assertions: tuple[Assertion, ...], tell: Callable[..., None]) -> None:
        self._assertions, self._tell = assertions, tell

    def equal(self, number: int, left: Any, right: Any, swapped: bool, strict: bool) -> None:
        held = bool(left == right)
        got, expected = (right, left) if swapped else (left, right)
        self._count(number, held, strict, got=shown(got), expected=shown(expected))

    def true(self, number: int, value: Any, strict: bool) -> None:
        self._count(number, bool(value), strict)

    def raised(self, number: int, error: Exception) -> None:
        self._tell({"check": number, "held": False, "error": described(error)})

    def _count(self, number: int, held: bool, strict: bool, **sides: str) -> None:
        if strict and not held:
            raise AssertionError(self._assertions[number].message or "")
        error = None if held else self._assertions[number].message
        self._tell({"check": number, "held": held, "error": error, **sides})


def referee(case: Case, incoming: int, outgoing: int, report: int) -> None:
    """Run `case` against the worker behind the two pipes, and report to the court."""

    def tell(message: object) -> None:
        wire.send(report, message)

    line = Line(incoming, outgoing, case.limits, tell)
    try:
        _open(line, case, tell)
        tell({"done": True, "error": _run(line, case, tell)})
    except Trouble as trouble:
        tell({"trouble": str(trouble)})


def _open(line: Line, case: Case, tell: Callable[..., None]) -> None:
    first = line.receive()
    if "refused" in first:
        tell(first)
        os._exit(0)
    if "sealed" not in first:
        raise Trouble(f"the worker was not ready for the program: {line.ended}")
    tell({"ready": True})
    line.send({"program": case.program, "entry_point": case.entry_point})
    answer = line.receive()
    if answer == {"loaded": True}:
        tell(answer)
        return
    if answer.get("memory") is True:
        tell({"flag": "memory_limit"})
    reason = line.ended or str(answer.get("failed", "the program did not load"))[:600]
    tell({"failed": reason})
    line.ended = reason


def _run(line: Line, case: Case, tell: Callable[..., None]) -> str | None:
    """Run the test; why it did not run to its end, if it did not."""
    candidate = Candidate(line, case.limits, tell)

    def function(*arguments: object, **keywords: object) -> Any:
        return candidate.ask(arguments, keywords)

    function.__name__ = function.__qualname__ = case.entry_point
    space: dict[str, Any] = {"__name__": "test"}
    try:
        exec(compile(case.prelude, "prelude.py", "exec", dont_inherit=True), space)
        space[case.entry_point] = function
        space[REFEREE] = Referee(case.assertions, tell)
        exec(case.test, space)
        check = space["check"]
    except Exception as error:
        if candidate.asked:
            return described(error)
        raise Trouble(f"the test could not be loaded: {described(error)}") from error
    try:
        result = check(function)
    except Trouble:
        raise
    except BaseException as error:
        return described(error)
    if inspect.iscoroutine(result):
        result.close()
        raise Trouble("the test's check must be a plain function, not a coroutine")
    return None


def described(error: BaseException) -> str:
    message = str(error)[:SHOWN_CHARACTERS]
    if type(error) is CandidateError:
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 20
        self.maxstring = self.maxlong = self.maxother = 100

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 1000:
            return f"<int of {x.bit_length()} bits>"
        return super().repr_int(x, level)


_SHORT = _Short()


def shown(value: object) -> str:
    """A short text of a value, for people."""
    text = _SHORT.repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
