"""Static analysis of the joint program, told to each agent in its own lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from collab.feedback.outcome import Outcome
from collab.feedback.structure import JOINT, structure, whole, writes
from collab.feedback.tools import NOISE, Batcher, find_tool
from collab.recipe.feedback import StaticFeedback
from collab.records import Feedback, Finding
from collab.syntax import parses

Remarks = Sequence[tuple[str, Finding]]
"""Each with the agent whose line it is on; "" where nobody's lines are known."""

_RANK = {"error": 0, "warning": 1, "info": 2}


class Static:
    """Syntax, structure and linters.

    Raises:
        FeedbackUnavailable: on construction, when a listed tool is not installed.
    """

    name = "static"

    def __init__(self, spec: StaticFeedback) -> None:
        self._spec = spec
        self._tools = [Batcher(find_tool(name)) for name in spec.tools if name != "ast"]

    async def tell(self, outcome: Outcome) -> dict[str, Feedback]:
        """To those who wrote lines of the joint program, remarks on theirs; to others, on all.

        Raises:
            FeedbackError: the problem is not about code, or a tool failed.
        """
        entry_point = outcome.entry_point(self.name)
        functions = self._functions(outcome, entry_point)
        remarks = await self._remarks(outcome)
        told = {}
        for agent in outcome.agents:
            if writes(outcome, agent):
                found = self._own(outcome, agent, functions, remarks)
                told[agent] = self._feedback("Static analysis", found)
            else:
                found = self._of_others(outcome, functions, remarks)
                told[agent] = self._feedback("Static analysis of the joint program", found)
        return told

    def _own(
        self, outcome: Outcome, agent: str, functions: Mapping[str, str], remarks: Remarks
    ) -> list[Finding]:
        with_ast = "ast" in self._spec.tools
        own = [*structure(outcome, agent, functions)] if with_ast else []
        return own + [finding for writer, finding in remarks if writer == agent]

    def _of_others(
        self, outcome: Outcome, functions: Mapping[str, str], remarks: Remarks
    ) -> list[Finding]:
        """What is told to one who wrote none of the program, with the writers' names."""
        found = []
        if "ast" in self._spec.tools:
            found += [*whole(outcome)]
            for writer in filter(partial(writes, outcome), outcome.agents):
                own = structure(outcome, writer, functions, whose=f"{writer}'s")
                found += [_of(writer, finding) for finding in own if finding.code != JOINT]
        return found + [_of(writer, finding) for writer, finding in remarks]

    async def aclose(self) -> None:
        for tool in self._tools:
            await tool.aclose()

    def _functions(self, outcome: Outcome, entry_point: str) -> dict[str, str]:
        """By agent: the function that it is to define."""
        helpers = {agent: agent for agent in outcome.roles.helpers}
        return {**helpers, outcome.roles.entry: entry_point, **self._spec.functions}

    async def _remarks(self, outcome: Outcome) -> Remarks:
        """The tools' remarks on the joint program, each with the agent whose line it is on."""
        program = outcome.joint.text
        broken = not parses(program)
        tools = [tool for tool in self._tools if not broken or tool.tool.name == "ruff"]
        if broken and "ast" in self._spec.tools:
            return []
        remarks = await asyncio.gather(*(tool.check(program) for tool in tools))
        located = (_locate(outcome, remark) for found in remarks for remark in found)
        return [item for item in located if item is not None and item[1].code not in NOISE]

    def _feedback(self, head: str, findings: Sequence[Finding]) -> Feedback:
        ranked = sorted(findings, key=lambda finding: _RANK[finding.severity])
        told, left = ranked[: self._spec.limit], len(ranked) - self._spec.limit
        lines = [f"- {_line(finding)}" for finding in told]
        if left > 0:
            lines.append(f"- and {left} more")
        text = "\n".join([f"{head}:", *lines] if lines else [f"{head}: no remark."])
        return Feedback(source=self.name, text=text, findings=tuple(told))


def _locate(outcome: Outcome, finding: Finding) -> tuple[str, Finding] | None:
    """The agent that wrote the line, and the finding in its own lines."""
    last = outcome.joint.text.count("\n")  # where a remark on the program's end belongs
    place = outcome.joint.locate(min(finding.line or 0, last))
    if place is None:
        return None if outcome.joint.spans else ("", finding)  # nobody knows whose line it is
    agent, line = place
    artefact = outcome.artefacts.get(agent, "")
    blank = len(artefact) - len(artefact.lstrip("\n"))
    return agent, finding.model_copy(update={"line": line + blank})


def _of(writer: str, finding: Finding) -> Finding:
    """A remark on the lines of `writer`, for somebody else."""
    line = f"line {finding.line}" if finding.line else ""
    place = ", ".join(part for part in (writer, line) if part)
    message = f"{place}: {finding.message}" if place else finding.message
    return finding.model_copy(update={"message": message, "line": None, "column": None})


def _line(finding: Finding) -> str:
    place = f"line {finding.line}: " if finding.line else ""
    code = f"{finding.code} " if finding.source != "ast" else ""
    return f"{place}{code}{' '.join(finding.message.split())[:200]}"
