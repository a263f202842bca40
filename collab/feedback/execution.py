"""Feedback from the prompt's own examples, run in the sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from collab.agents.examples import Example, examples_of, make_test
from collab.agents.joins import preamble
from collab.feedback.plain import Outcome, Source, entry_point, shorten
from collab.recipe.feedback import ExecutionFeedbackSpec
from collab.records import Feedback, Finding

if TYPE_CHECKING:
    from collab.sandbox import Check, Sandbox, Verdict


class Execution(Source):
    """Reports how many of the prompt's examples pass, and the actual values of the others.

    The test comes from the prompt alone, because an `Outcome` has no hidden tests.
    """

    name = "execution"

    def __init__(self, spec: ExecutionFeedbackSpec, sandbox: Sandbox) -> None:
        self._spec, self._sandbox = spec, sandbox

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        """Return the feedback by agent, from a run of the joint program.

        Raises:
            FeedbackError: the problem is not about code.
            SandboxError: the run fails.
        """
        from collab.sandbox import Trial

        function = entry_point(outcome.problem, self.name)
        prompt = str(outcome.problem.public.get("prompt", ""))
        examples = examples_of(prompt, function)
        if not examples:
            return self._shared_feedback(outcome, "Execution: the prompt has no example to run.")
        trial = Trial(
            program=outcome.joint.text,
            entry_point=function,
            test=make_test(examples),
            prelude=preamble(prompt, function),
        )
        verdict = await self._sandbox.check(trial)
        findings = _example_findings(examples, verdict)
        text = self._text(len(examples), findings, verdict)
        return self._shared_feedback(outcome, text, findings[: self._spec.limit])

    def _shared_feedback(
        self, outcome: Outcome, text: str, findings: Sequence[Finding] = ()
    ) -> dict[str, Feedback]:
        feedback = Feedback(source=self.name, text=text, findings=tuple(findings))
        return dict.fromkeys(outcome.agents, feedback)

    def _text(self, n_examples: int, findings: list[Finding], verdict: Verdict) -> str:
        if not verdict.loaded:
            reason = shorten(verdict.error or "no reason given")
            return f"Execution: the joint program does not load: {reason}"
        shown = findings[: self._spec.limit]
        lines = [f"- {finding.message}" for finding in shown]
        if len(findings) > len(shown):
            lines.append(f"- and {len(findings) - len(shown)} more")
        n_passed = n_examples - len(findings)
        head = f"Execution: {n_passed} of {n_examples} examples in the prompt hold."
        if verdict.error:
            lines.append(f"- {shorten(verdict.error)}")
        return "\n".join([head, *lines])


def _example_findings(examples: list[Example], verdict: Verdict) -> list[Finding]:
    """Return a finding for each example that fails, including those never reached."""
    checks = {check.line: check for check in verdict.checks}
    findings = []
    for line, example in enumerate(examples, start=2):
        check = checks.get(line)
        if check is None or not check.held:
            message = f"{shorten(example.call)}: {_complaint(example, check)}"
            findings.append(
                Finding(source="execution", code="example", severity="error", message=message)
            )
    return findings


def _complaint(example: Example, check: Check | None) -> str:
    expected = f"expected {shorten(example.expected)}"
    if check is None:
        return f"{expected}, was not run"
    if check.error is not None:
        return f"{expected}, but {shorten(check.error)}"
    if check.got is None:
        return f"{expected}, which it does not give"
    return f"{expected}, got {shorten(check.got)}"
