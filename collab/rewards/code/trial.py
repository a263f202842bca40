"""Trials of programs in the sandbox, and the score fields that come from their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collab.agents.examples import Example, make_test
from collab.agents.joins import preamble
from collab.rewards.context import RewardContext

if TYPE_CHECKING:
    from collab.sandbox import Check, Sandbox, Treatment, Trial, Verdict


_MAX_FAILURES = 5


@dataclass(frozen=True)
class Subject:
    """A function to test: the problem's fields with its name and its tests, or other examples."""

    function: str = "entry_point"
    test: str = "test"
    examples: tuple[Example, ...] = ()
    """Tested instead of the field `test`."""


def trial_of(
    context: RewardContext, program: str, treatment: Treatment | None, subject: Any
) -> Trial:
    """Return the trial of a program against the hidden test of a `Subject`; None: the problem's own
    function and test.

    Raises:
        RewardError: the problem lacks a field that `subject` names.
    """
    from collab.sandbox import Trial

    subject = Subject() if subject is None else subject
    return Trial(
        program=program,
        entry_point=context.field(subject.function),
        test=make_test(subject.examples) if subject.examples else context.field(subject.test),
        prelude=preamble(
            str(context.problem.public.get("prompt", "")), context.field("entry_point")
        ),
        treatment=treatment,
    )


async def score_fields(context: RewardContext, sandbox: Sandbox | None) -> dict[str, Any]:
    """Return the score fields about the joint program's tests.

    The tests run even if a gate closed before any part used them.

    Raises:
        SandboxError: the sandbox itself failed.
    """
    hidden = context.problem.hidden
    is_code = "test" in hidden and "entry_point" in {*context.problem.public, *hidden}
    if sandbox is not None and is_code:
        verdict: Verdict | None = await context.verdict()
    else:
        verdict = context.known_verdict()
    if verdict is None:
        return {}
    return {
        "solved": verdict.passed,
        "tests": verdict.tests,
        "flags": verdict.flags,
        "failures": _describe_failures(verdict),
        "isolation": verdict.isolation,
    }


def _describe_failures(verdict: Verdict) -> tuple[str, ...]:
    """Describe the first failed tests, or why the program did not run, for people."""
    failures = [_describe(check) for check in verdict.checks if not check.held][:_MAX_FAILURES]
    return tuple([verdict.error, *failures] if verdict.error else failures)


def _describe(check: Check) -> str:
    place = f"line {check.line}: {check.source}"
    if check.error is not None:
        return f"{place}: {check.error}"
    if check.expected is None and check.got is None:
        return f"{place}: fails"
    return f"{place}: expected {check.expected}, got {check.got}"
