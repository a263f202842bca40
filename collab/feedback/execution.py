"""The prompt's own examples, run by the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collab.agents.joins import preamble
from collab.feedback.examples import Example, examples_of
from collab.feedback.outcome import Outcome
from collab.recipe.feedback import ExecutionFeedback
from collab.records import Feedback, Finding

if TYPE_CHECKING:
    from collab.sandbox import Check, Sandbox, Verdict

_MAX_TEXT = 200


class Execution:
    """How many of the prompt's examples hold, and what the others give instead.

    The test is made of the prompt alone; hidden tests are not in an `Outcome`.
    """

    name = "execution"

    def __init__(self, spec: ExecutionFeedback, sandbox: Sandbox) -> None:
        self._spec, self._sandbox = spec, sandbox

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        """Raises FeedbackError for a problem that is not about code, SandboxError from the run."""
        from collab.sandbox import Trial

        entry_point = outcome.entry_point(self.name)
        prompt = str(outcome.problem.public.get("prompt", ""))
        examples = examples_of(prompt, entry_point)
        if not examples:
            return self._everybody(outcome, "Execution: the prompt has no example to run.")
        asserts = [f"    assert {e.call} == {e.expected}" for e in examples]
        trial = Trial(
            program=outcome.joint.text,
            entry_point=entry_point,
            test="\n".join(["def check(candidate):", *asserts, ""]),
            prelude=preamble(prompt, entry_point),
        )
        verdict = await self._sandbox.check(trial)
        findings = _failing(examples, verdict)
        text = self._text(len(examples), findings, verdict)
        return self._everybody(outcome, text, findings[: self._spec.limit])

    async def aclose(self) -> None:
        """The sandbox belongs to whoever opened it."""

    def _everybody(
        self, outcome: Outcome, text: str, findings: list[Finding] | None = None
    ) -> dict[str, Feedback]:
        feedback = Feedback(source=self.name, text=text, findings=tuple(findings or ()))
        return dict.fromkeys(outcome.agents, feedback)

    def _text(self, n_examples: int, findings: list[Finding], verdict: Verdict) -> str:
        if not verdict.loaded:
            return f"Execution: the joint program does not load: {_short(verdict.error)}"
        told = findings[: self._spec.limit]
        lines = [f"- {finding.message}" for finding in told]
        if len(findings) > len(told):
            lines.append(f"- and {len(findings) - len(told)} more")
        held = n_examples - len(findings)
        head = f"Execution: {held} of {n_examples} examples in the prompt hold."
        if verdict.error:
            lines.append(f"- {_short(verdict.error)}")
        return "\n".join([head, *lines])


def _failing(examples: list[Example], verdict: Verdict) -> list[Finding]:
    """A finding for each example that does not hold; those never reached do not hold either."""
    checks = {check.line: check for check in verdict.checks}
    findings = []
    for line, example in enumerate(examples, start=2):
        check = checks.get(line)
        if check is None or not check.held:
            message = f"{_short(example.call)}: {_complaint(example, check)}"
            findings.append(
                Finding(source="execution", code="example", severity="error", message=message)
            )
    return findings


def _complaint(example: Example, check: Check | None) -> str:
    expected = f"expected {_short(example.expected)}"
    if check is None:
        return f"{expected}, was not run"
    if check.error is not None:
        return f"{expected}, but {_short(check.error)}"
    if check.got is None:
        return f"{expected}, which it does not give"
    return f"{expected}, got {_short(check.got)}"


def _short(text: str | None) -> str:
    line = " ".join((text or "no reason given").split())
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 3]}..."
