"""Trials and verdicts: the sandbox's input and output."""

from __future__ import annotations

from typing import Literal

from pydantic import InstanceOf

from collab.records import Record, Tests

SourceText = InstanceOf[str]
"""Source code as a model wrote it, including lone surrogates and NUL."""


Values = Literal[
    "true", "none", "opaque", "zeros", "ones", "empty",
    "once", "other", "longer", "shorter", "first", "previous", "shifted",
]  # fmt: skip


class Treatment(Record):
    """Other values for one function of a program, to learn what depends on them.

    true        the control: copies of its own values, made in the same way as all others
    none        None
    opaque      an object that supports no operation
    zeros       values of the same types, with every number, boolean, letter and key set to 0
    ones        values of the same types, with every number, boolean, letter and key set to 1
    empty       its own values, but lists, strings and tables have no items
    once        the first value of the run is replaced everywhere by another of its type
    other       every value is replaced by another of its type
    longer      its own values, but lists and strings are longer
    shorter     its own values, but lists and strings lack their last items
    first       always its first value
    previous    for each value, the one before its first occurrence
    shifted     for each call, the boolean of the call before

    In a run, equal values of one type change in the same way; with `zeros` and `ones`, equal values
    of all types do. If a program inspects the interpreter (frames, code, tracing), its later
    answers do not count.
    """

    function: str
    values: Values
    seed: int = 0
    lines: tuple[int, int] | None = None
    """First and last line, from 1, of the function's definition, or None for any place.

    Another function of the same name keeps its own values.
    """
    moved: bool = False
    """Allocate objects of many sizes first, so the program's objects get other addresses."""


class Trial(Record):
    """An untrusted program and the trusted test that it must pass."""

    program: SourceText
    """Untrusted program, complete with the prompt's imports and helpers."""
    entry_point: str
    """Function that the test is about."""
    test: str
    """Trusted source that defines `check(candidate)`, as HumanEval's does.

    Arguments and answers are plain data and are copied: a program cannot change the values that a
    test compares with. A test of a function does not see in-place changes of its argument. A test
    of a class (`entry_point: class NAME`) sees a method's changes to its arguments.
    """
    prelude: str = ""
    """Trusted source that the test itself needs: the prompt's imports and helpers."""
    treatment: Treatment | None = None


class Check(Record):
    """The result of one evaluation of an assert."""

    line: int
    """Line in the test, from 1."""
    source: str
    held: bool
    expected: str | None = None
    """Short text, for `==`, of the side that does not call the candidate."""
    got: str | None = None
    error: str | None = None
    answer: str | None = None
    """Digest of the program's answers for this check, or None if there is no answer."""


class Verdict(Record):
    """The outcome of a trial.

    `flags` are signs of a program that attacks its sandbox, or of a limit that it reached:

    worker_died         the program's process ended by itself
    denied_system_call  it was killed at a system call that only an attack asks for
    non_builtin_value   it returned a value whose type is not an exact built-in type
    protocol_violation  it wrote to the sandbox's channel by itself
    answer_limit        it returned a value over the limit of size or depth
    memory_limit        it asked for more memory than its limit
    time_limit          it was stopped at its time limit
    test_runner_died    the trusted side could not finish comparing what it returned
    """

    passed: bool
    """True if the program loaded, the test ran to its end, and all checks held.

    At least one of the checks must depend on the program.
    """
    tests: Tests
    checks: tuple[Check, ...]
    """Up to 1,000 evaluations of asserts that depend on the program or fail, and missed asserts.

    `tests` counts the test's own checks. An assert in a loop whose length depends on the program
    counts as one.
    """
    loaded: bool
    error: str | None = None
    """Reason why the program did not load, or why the trial ended early."""
    returned: str | None = None
    """Return value of the test's `check`, if it is text."""
    flags: tuple[str, ...] = ()
    isolation: str
    """`sealed` or `unsafe`."""
    seconds: float
