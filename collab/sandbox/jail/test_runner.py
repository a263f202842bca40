"""The test runner, which runs the trusted test and asks the worker for every answer.

The test is trusted only in the sense that its verdict counts. It may come from anywhere, so it runs
sealed, like a program. It runs in a separate process, because a candidate's value may make a
comparison run forever. The supervisor then ends the process. Every check is reported at once, so
earlier checks still count.

Frames to the supervisor: `counts`, or `asserts`, `ready`, `loaded`, `failed`, `called`, `check`,
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
from .assert_counts import CountingRunner, StandIn
from .asserts import RUNNER_NAME, Assertion, BadTest, CountedTest, instrument
from .classes.objects import CLASS
from .classes.remote_class import remote_class
from .limits import Limits
from .processes import FIRST_FD
from .remote_function import CandidateError, RemoteFunction, Trouble

CASE_FD, INCOMING_FD, OUTGOING_FD, REPORT_FD = range(FIRST_FD, FIRST_FD + 4)
MAX_SHOWN_CHARACTERS = 200
IMPORT_HINT = "tests run sealed, with the modules of collab/sandbox/jail/preload.py"


@dataclass(frozen=True)
class Case:
    """A program, its test and its limits, as sent to the test runner."""

    program: str
    entry_point: str
    prelude: str
    test: str
    limits: Limits
    counts_only: bool = False
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
        self, assertions: Sequence[Assertion], report: Callable[[dict[str, Any]], None]
    ) -> None:
        self._assertions, self._report = assertions, report

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
        self._report({"check": number, "held": False, "error": describe_error(error)})

    def _count(self, number: int, held: bool, strict: bool, **sides: str) -> None:
        if strict and not held:
            raise AssertionError(self._assertions[number].message or "")
        error = None if held else self._assertions[number].message
        self._report({"check": number, "held": held, "error": error, **sides})


def run_test(_: Limits) -> None:
    """Read a case, and report on it to the supervisor."""
    fields = wire.Reader(CASE_FD, wire.TRIAL_BYTES).receive()
    case = Case(**{**fields, "limits": Limits(**fields["limits"])})
    try:
        if case.counts_only:
            report({"counts": _count_asserts(case)})
        else:
            run_case(case, wire.WorkerConnection(INCOMING_FD, OUTGOING_FD, case.limits, report))
    except (BadTest, Trouble) as trouble:
        report({"trouble": str(trouble)})


def run_case(case: Case, worker: wire.WorkerConnection) -> None:
    """Run a case's test against the worker at the other end of `worker`, and report every frame.

    Raises:
        BadTest: the test's asserts cannot be counted.
        Trouble: the test fails on its own, or the worker fails before it has the program.
    """
    test = instrument(case.test, case.name, case.prelude)
    report({"asserts": list(map(vars, test.assertions))})
    _load_program(worker, case)
    escaped, returned = _run_checks(worker, case, test)
    report({"done": True, "error": escaped, "returned": returned})


def report(message: object) -> None:
    wire.send(REPORT_FD, message)


def _count_asserts(case: Case) -> list[int | None]:
    """Return how often each assert is evaluated, or None for an assert where this depends on the
    candidate.
    """
    test = instrument(case.test, case.name, case.prelude)
    empty, full = CountingRunner(), CountingRunner()
    try:
        _load_test(case, test, empty, lambda _: StandIn(False))()
        _load_test(case, test, full, lambda _: StandIn(True))()
    except Exception:
        return [None] * len(test.assertions)
    pairs = ((empty.counts[number], full.counts[number]) for number in range(len(test.assertions)))
    return [a if a == b else None for a, b in pairs]


def _load_test(
    case: Case, test: CountedTest, runner: object, candidate_of: Callable[[dict[str, Any]], object]
) -> Callable[[], Any]:
    """Load the test in a separate namespace. Return a function that checks the candidate.

    Raises:
        Exception: the test's own exception.
    """
    namespace: dict[str, Any] = {"__name__": "test", RUNNER_NAME: runner}
    exec(compile(case.prelude, "prelude.py", "exec", dont_inherit=True), namespace)
    if case.is_class:
        # The test's class only lists the methods. The candidate takes its place.
        exec(test.code, namespace)
        namespace[case.name] = candidate = candidate_of(namespace)
    else:
        namespace[case.name] = candidate = candidate_of(namespace)
        exec(test.code, namespace)
    check: Callable[..., Any] = namespace["check"]
    return partial(check, candidate)


def _load_program(worker: wire.WorkerConnection, case: Case) -> None:
    first = worker.receive()
    if "refused" in first:
        report(first)
        os._exit(0)
    if "sealed" not in first:
        raise Trouble(f"the worker was not ready for the program: {worker.ended}")
    report({"ready": True})
    names = ("program", "entry_point", "treatment")
    worker.send({name: getattr(case, name) for name in names})
    answer = worker.receive()
    if answer == {"loaded": True}:
        report(answer)
        return
    if answer.get("memory") is True:
        report({"flag": "memory_limit"})
    reason = worker.ended or str(answer.get("failed", "the program did not load"))[:600]
    report({"failed": reason})
    worker.ended = reason


def _run_checks(
    worker: wire.WorkerConnection, case: Case, test: CountedTest
) -> tuple[str | None, str | None]:
    """Run the test, and return the reason if it did not run to its end, and the text that it
    returned.
    """
    remote = RemoteFunction(worker, case.limits, report)

    def report_check(check: dict[str, Any]) -> None:
        report({**check, "answer": remote.answers.next_digest()})

    try:
        runner = TestRunner(test.assertions, report_check)
        check = _load_test(case, test, runner, partial(_make_candidate, case, remote))
    except Exception as error:
        if remote.called:
            return describe_error(error), None
        remedy = f" ({IMPORT_HINT})" if isinstance(error, ImportError) else ""
        raise Trouble(f"the test could not be loaded: {describe_error(error)}{remedy}") from error
    try:
        result = check()
    except Trouble:
        raise
    except BaseException as error:
        if isinstance(error, ImportError) and not remote.called:
            raise Trouble(
                f"the test cannot run: {describe_error(error)} ({IMPORT_HINT})"
            ) from error
        return describe_error(error), None
    if inspect.iscoroutine(result):
        result.close()
        raise Trouble("the test's check must be a plain function, not a coroutine")
    return None, result if type(result) is str else None


def _make_candidate(case: Case, remote: RemoteFunction, namespace: dict[str, Any]) -> object:
    """Make the candidate as the test sees it. `namespace` holds the existing definitions."""
    if case.is_class:
        test_class = namespace.get(case.name)
        if not isinstance(test_class, type):
            raise Trouble(f"the test defines no class '{case.name}' to say what its methods are")
        return remote_class(case.name, test_class, remote)

    def function(*arguments: object, **keywords: object) -> Any:
        return remote.ask(arguments, keywords)

    function.__name__ = function.__qualname__ = case.entry_point
    return function


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an exception."""
    message = str(error)[:MAX_SHOWN_CHARACTERS]
    if isinstance(error, CandidateError):
        return message
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


class _ShortRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = 20
        self.maxstring = self.maxlong = self.maxother = 100

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 1000:
            return f"<int of {x.bit_length()} bits>"
        return super().repr_int(x, level)


_SHORT_REPR = _ShortRepr()


def shorten(value: object) -> str:
    """Return a short text of a value for messages."""
    text = _SHORT_REPR.repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 3] + "..."
