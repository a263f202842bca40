"""Trials of programs in the sandbox, and the score fields that come from their verdicts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collab.agents.examples import Example, as_test
from collab.agents.joins import preamble
from collab.analysis import SCHEMES, classify
from collab.plugins import in_thread
from collab.records import Scheme
from collab.rewards.code import cooperation
from collab.rewards.code.structure import function_name
from collab.rewards.context import RewardContext
from collab.rewards.parts import PartFunction, bind_part

if TYPE_CHECKING:
    from collab.sandbox import Check, Sandbox, Treatment, Trial, Verdict


def schemes(
    context: RewardContext,
    agent: str,
    helper: str,
    function: str = "entry_point",
    helper_function: str = "",
) -> tuple[Scheme, ...]:
    """Return the cooperation schemes of the joint program, the chosen one first. Options: see
    `calls`.

    The result is None if the team lacks one of the two agents, or the problem asks for no function.
    """
    fields = {**context.problem.public, **context.problem.hidden}
    if not {agent, helper} <= {*context.artefacts} or "entry_point" not in fields:
        return ()
    classified = classify(
        context.joint.text,
        function_name(context, agent, function),
        function_name(context, helper, helper_function),
        context.joint.spans.get(helper, (0, 0)),
    )
    return tuple(Scheme(name=m.name, lines=m.lines, why=m.why) for m in classified.matches)


_MAX_FAILURES = 5
_ANYBODY = bind_part("calls", "calls", cooperation.calls, {}, built_in=True)


@dataclass(frozen=True)
class Subject:
    """A function to test: the problem's fields with its name and its tests, or other examples."""

    function: str = "entry_point"
    test: str = "test"
    examples: tuple[Example, ...] = ()
    """Tested instead of the field `test`."""


def trial_of(
    context: RewardContext, program: str, treatment: Treatment | None, subject: Hashable
) -> Trial:
    """Make the trial of a program against the hidden test of a `Subject`.

    The default subject is the problem's own function and test.

    Raises:
        RewardError: the problem lacks a field that `subject` names.
    """
    from collab.sandbox import Trial

    subject = subject if isinstance(subject, Subject) else Subject()
    return Trial(
        program=program,
        entry_point=context.field(subject.function),
        test=as_test(subject.examples) if subject.examples else context.field(subject.test),
        prelude=preamble(
            str(context.problem.public.get("prompt", "")), context.field("entry_point")
        ),
        treatment=treatment,
    )


async def examine(
    context: RewardContext, parts: Mapping[str, PartFunction], sandbox: Sandbox | None
) -> dict[str, Any]:
    """Return the score fields about the joint program's tests and the cooperation schemes.

    The tests run even if a gate closed before any part used them.

    Raises:
        SandboxError: the sandbox itself failed.
    """
    if sandbox is not None and "test" in context.problem.hidden:
        verdict: Verdict | None = await context.verdict()
    else:
        verdict = context.known_verdict()
    fields = {"schemes": await in_thread(_schemes, context, parts)}
    return fields if verdict is None else {**fields, **_of_verdict(verdict)}


def _of_verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "solved": verdict.passed,
        "tests": verdict.tests,
        "flags": verdict.flags,
        "failures": _failures(verdict),
        "isolation": verdict.isolation,
    }


def _schemes(context: RewardContext, parts: Mapping[str, PartFunction]) -> tuple[Scheme, ...]:
    """Return the cooperation schemes of the agents that the part `calls` names."""
    about = next((p for p in parts.values() if p.function is cooperation.calls), _ANYBODY)
    if about.lacks(context.roles, context.artefacts):
        return ()
    calls = about.calls(context.roles).values()
    shown = [scheme for options in calls for scheme in schemes(context, **options)]
    return tuple(sorted(shown, key=lambda scheme: SCHEMES.index(scheme.name)))


def _failures(verdict: Verdict) -> tuple[str, ...]:
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
