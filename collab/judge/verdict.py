"""What the judge is asked, and what it answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainValidator

from collab.records import Record, Tests


def _any_string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"source code is a string, not {type(value).__name__}")
    return value


Source = Annotated[str, PlainValidator(_any_string, json_schema_input_type=str)]
"""Source code as a model wrote it: lone surrogates and NUL included."""


class Trial(Record):
    """A candidate program and the trusted test that it is to pass."""

    program: Source
    """Untrusted, and complete: the prompt's imports and helpers stand in it."""
    entry_point: str
    """The function that the test is about."""
    test: str
    """Trusted source that defines `check(candidate)`, as HumanEval's does.

    Arguments and answers are plain data and cross as copies: a test does not see that a program
    changed its argument in place, and a program cannot change what a test compares with.
    """
    prelude: str = ""
    """Trusted source that the test's own side needs: the prompt's imports and helpers."""


class Check(Record):
    """One assert, evaluated once."""

    line: int
    """1-based, in the test."""
    source: str
    held: bool
    expected: str | None = None
    """For `==`: a short text of the side that does not call the candidate."""
    got: str | None = None
    error: str | None = None


class Verdict(Record):
    """What became of a trial.

    `flags` are signs of a program that attacks its judge, or of a limit that it reached:

    worker_died         the program's process ended by itself
    denied_system_call  it was killed at a system call that only an attack asks for
    non_builtin_value   it returned a value that is not of an exact built-in type
    protocol_violation  it wrote to the judge's channel by itself
    answer_limit        it returned a value over the limit of size or depth
    memory_limit        it asked for more memory than its limit
    time_limit          it was stopped at the end of its time
    referee_died        the trusted side could not finish comparing what it returned
    """

    passed: bool
    """It loaded, the test ran to its end, and all checks held, at least one that depends on it."""
    tests: Tests
    checks: tuple[Check, ...]
    """The first 1,000 evaluations of asserts that say something about the program.

    `tests` counts what the test holds: an assert in a loop whose length the program decides is one.
    """
    loaded: bool
    error: str | None = None
    """Why the program did not load, or why the trial ended early."""
    flags: tuple[str, ...] = ()
    isolation: str
    """`sealed` or `unsafe`."""
    seconds: float
