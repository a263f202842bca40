"""The test runner, which runs the trusted test and asks the worker for every answer.

The test is trusted only in the sense that its verdict counts. It may come from anywhere, so it runs
sealed, like a program. It runs in a separate process, because a candidate's value may make a
comparison run forever. The supervisor then ends the process. Every check is reported at once, so
earlier checks still count.

Frames to the supervisor: `counts`, or `asserts`, `ready`, `loaded`, `failed`, `asked`, `check`,
`flag`, `done`; and `refused` or `trouble`.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import wire
from .asserts import REFEREE, Assertion, BadTest, CountedTest, instrument
from .classes.objects import CLASS
from .classes.remote_class import remote_class
from .dry_run import Counting, StandIn, count_asserts
from .layers.descriptors import FIRST, keep_only
from .layers.stack import LayerUnavailable
from .limits import Limits
from .remote_function import CandidateError, RemoteFunction, Trouble

CASE, INCOMING, OUTGOING, REPORT = range(FIRST, FIRST + 4)
CASE_BYTES = 1 << 30
SHOWN_CHARACTERS = 200
IMPORTABLE = "tests run sealed, with the modules of collab/sandbox/jail/preload.py"


@dataclass(frozen=True)
class Case:
    """A program, its test and its limits, as sent to the test runner."""

    program: str
    entry_point: str
    prelude: str
    test: str
    limits: Limits
    dry: bool = False
    """Count only the evaluations of each assert."""
    treatment: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Name of the candidate in the test."""
        return self.entry_point.removeprefix(CLASS)

    @property
    def is_class(self) -> bool:
        """True if the test is about a class, not a function."""
        return self.entry_point.startswith(CLASS)


class TestRunner:
    """Receives each assert of an instrumented test, and reports its outcome."""

    def __init__(
        self, assertions: Sequence[Assertion], tell: Callable[[dict[str, Any]], None]
    ) -> None:
        self._assertions, self._tell = assertions, tell

    def equal(self, number: int, left: Any, right: Any, swapped: bool, strict: bool) -> None:
        """Compare two values for the assert `number`, and report the outcome."""
        held = bool(left == right)
        got, expected = (right, left) if swapped else (left, right)
        self._count(number, held, strict, got=shorten(got), expected=shorten(expected))

    def true(self, number: int, value: Any, strict: bool) -> None:
        """Report whether the value of the assert `number` is true."""
        self._count(number, bool(value), strict)

    def raised(self, number: int, error: Exception) -> None:
        """Report an exception in the assert `number`."""
        self._tell({"check": number, "held": False, "error": describe_error(error)})

    def _count(self, number: int, held: bool, strict: bool, **sides: str) -> None:
        if strict and not held:
            raise AssertionError(self._assertions[number].message or "")
        error = None if held else self._assertions[number].message
        self._tell({"check": number, "held": held, "error": error, **sides})


def run_test(fds: Sequence[int], _: Limits, seal: Callable[[], None]) -> None:
    """Seal this process, read a case, and report on it to the supervisor.

    `fds` are the descriptors for printing, for the case, the two pipes of the worker, and for the
    reports.
    """
    keep_only(*fds)
    try:
        seal()
    except LayerUnavailable as error:
        tell(error.frame())
        return
    fields = wire.Reader(CASE, CASE_BYTES).receive()
    case = Case(**{**fields, "limits": Limits(**fields["limits"])})
    try:
        if case.dry:
            tell({"counts": _counts(case)})
        else:
            run_case(case, wire.Line(INCOMING, OUTGOING, case.limits, tell))
    except (BadTest, Trouble) as trouble:
        tell({"trouble": str(trouble)})


def run_case(case: Case, line: wire.Line) -> None:
    """Run a case's test against the worker at the other end of `line`, and report every frame.

    Raises:
        BadTest: the test's asserts cannot be counted.
        Trouble: the test fails on its own, or the worker fails before it has the program.
    """
    test = instrument(case.test, case.name, case.prelude)
    tell({"asserts": list(map(vars, test.assertions))})
    _open(line, case)
    escaped, returned = _run(line, case, test)
    tell({"done": True, "error": escaped, "returned": returned})


def tell(message: object) -> None:
    """Report to the supervisor."""
    wire.send(REPORT, message)


def _counts(case: Case) -> list[int | None]:
    test = instrument(case.test, case.name, case.prelude)

    def run(counting: Counting, stand_in: StandIn) -> bool:
        try:
            _loaded(case, test, counting, lambda _: stand_in)()
        except Exception:
            return False
        return True

    return count_asserts(run, len(test.assertions))


def _loaded(
    case: Case, test: CountedTest, referee: object, candidate_of: Callable[[dict[str, Any]], object]
) -> Callable[[], Any]:
    """Load the test in a separate namespace. Return a function that checks the candidate.

    Raises:
        Exception: the test's own exception.
    """
    space: dict[str, Any] = {"__name__": "test", REFEREE: referee}
    exec(compile(case.prelude, "prelude.py", "exec", dont_inherit=True), space)
    if case.is_class:
        # The test's class only lists the methods. The candidate takes its place.
        exec(test.code, space)
        space[case.name] = candidate = candidate_of(space)
    else:
        space[case.name] = candidate = candidate_of(space)
        exec(test.code, space)
    check: Callable[..., Any] = space["check"]
    return partial(check, candidate)


def _open(line: wire.Line, case: Case) -> None:
    first = line.receive()
    if "refused" in first:
        tell(first)
        os._exit(0)
    if "sealed" not in first:
        raise Trouble(f"the worker was not ready for the program: {line.ended}")
    tell({"ready": True})
    names = ("program", "entry_point", "treatment")
    line.send({name: getattr(case, name) for name in names})
    answer = line.receive()
    if answer == {"loaded": True}:
        tell(answer)
        return
    if answer.get("memory") is True:
        tell({"flag": "memory_limit"})
    reason = line.ended or str(answer.get("failed", "the program did not load"))[:600]
    tell({"failed": reason})
    line.ended = reason


def _run(line: wire.Line, case: Case, test: CountedTest) -> tuple[str | None, str | None]:
    """Run the test, and return the reason if it did not run to its end, and the text that it
    returned.
    """
    remote = RemoteFunction(line, case.limits, tell)

    def tell_of(check: dict[str, Any]) -> None:
        tell({**check, "answer": remote.answers.next_digest()})

    try:
        runner = TestRunner(test.assertions, tell_of)
        check = _loaded(case, test, runner, partial(_candidate, case, remote))
    except Exception as error:
        if remote.called:
            return describe_error(error), None
        remedy = f" ({IMPORTABLE})" if isinstance(error, ImportError) else ""
        raise Trouble(f"the test could not be loaded: {describe_error(error)}{remedy}") from error
    try:
        result = check()
    except Trouble:
        raise
    except BaseException as error:
        if isinstance(error, ImportError) and not remote.called:
            raise Trouble(f"the test cannot run: {describe_error(error)} ({IMPORTABLE})") from error
        return describe_error(error), None
    if inspect.iscoroutine(result):
        result.close()
        raise Trouble("the test's check must be a plain function, not a coroutine")
    return None, result if type(result) is str else None


def _candidate(case: Case, remote: RemoteFunction, space: dict[str, Any]) -> object:
    """Make the candidate as the test sees it. `space` holds the existing definitions."""
    if case.is_class:
        like = space.get(case.name)
        if not isinstance(like, type):
            raise Trouble(f"the test defines no class '{case.name}' to say what its methods are")
        return remote_class(case.name, like, remote)

    def function(*arguments: object, **keywords: object) -> Any:
        return remote.ask(arguments, keywords)

    function.__name__ = function.__qualname__ = case.entry_point
    return function


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an exception."""
    message = str(error)[:SHOWN_CHARACTERS]
    if isinstance(error, CandidateError):
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


def shorten(value: object) -> str:
    """Return a short text of a value for messages."""
    text = _SHORT.repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
