"""Static analysis of the joint program, told to each agent in its own lines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from collab.analysis import helper_use, returns_value
from collab.feedback.outcome import Outcome
from collab.feedback.tools import NOISE, Batcher, find_tool
from collab.recipe.feedback import StaticFeedback
from collab.records import Feedback, Finding
from collab.syntax import parse, parses

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
        """Raises FeedbackError for a problem that is not about code, or when a tool fails."""
        entry_point = outcome.entry_point(self.name)
        findings: dict[str, list[Finding]] = {agent: [] for agent in outcome.agents}
        if "ast" in self._spec.tools:
            functions = self._functions(outcome, entry_point)
            for agent in outcome.agents:
                findings[agent] += _structure(outcome, agent, functions)
        for agent, finding in await self._remarks(outcome):
            findings[agent].append(finding)
        return {agent: self._feedback(found) for agent, found in findings.items()}

    async def aclose(self) -> None:
        for tool in self._tools:
            await tool.aclose()

    def _functions(self, outcome: Outcome, entry_point: str) -> dict[str, str]:
        """By agent: the function that it is to define."""
        writer = "main" if "main" in outcome.agents else outcome.agents[-1]
        named = {agent: agent for agent in outcome.agents}
        return {**named, writer: entry_point, **self._spec.functions}

    async def _remarks(self, outcome: Outcome) -> list[tuple[str, Finding]]:
        """The tools' remarks on the joint program, each with the agent whose line it is on."""
        program = outcome.joint.text
        broken = not parses(program)
        tools = [tool for tool in self._tools if not broken or tool.tool.name == "ruff"]
        if broken and "ast" in self._spec.tools:
            return []
        remarks = await asyncio.gather(*(tool.check(program) for tool in tools))
        located = (_locate(outcome, remark) for found in remarks for remark in found)
        return [item for item in located if item is not None and item[1].code not in NOISE]

    def _feedback(self, findings: Sequence[Finding]) -> Feedback:
        ranked = sorted(findings, key=lambda finding: _RANK[finding.severity])
        told, left = ranked[: self._spec.limit], len(ranked) - self._spec.limit
        lines = [f"- {_line(finding)}" for finding in told]
        if left > 0:
            lines.append(f"- and {left} more")
        text = "\n".join(["Static analysis:", *lines] if lines else ["Static analysis: no remark."])
        return Feedback(source=self.name, text=text, findings=tuple(told))


def _structure(outcome: Outcome, agent: str, functions: dict[str, str]) -> Iterable[Finding]:
    """What the agent's own syntax tree says."""
    source = outcome.artefacts.get(agent, "")
    if not source.strip():
        yield _remark("no-code", "error", "no code was found in your answer")
        return
    try:
        tree = parse(source)
    except SyntaxError as error:
        message = f"your code does not parse: {error.msg}"
        yield _remark("syntax-error", "error", message, error.lineno, error.offset)
        return
    yield from _joined(outcome, agent)
    name = functions.get(agent, "")
    if not name:
        return
    returns = returns_value(tree, name)
    if returns is None:
        yield _remark("missing", "error", f"your code does not define `{name}`")
    elif not returns:
        yield _remark("returns-nothing", "error", f"`{name}` returns no value")
    else:
        yield _remark("defined", "info", f"`{name}` is defined")
        if name == outcome.problem.public["entry_point"]:
            others = [functions[other] for other in outcome.agents if other != agent]
            yield from (_use(source, name, other) for other in others if other)


def _joined(outcome: Outcome, agent: str) -> Iterable[Finding]:
    """Trouble that only the joint program has."""
    others = [other for other in outcome.agents if other != agent]
    broken = [other for other in others if not parses(outcome.artefacts.get(other, ""))]
    if broken:
        message = f"the joint program does not parse, because of the code of: {', '.join(broken)}"
        yield _remark("joint-syntax", "warning", message)
    elif not parses(outcome.joint.text):
        message = "the joint program does not parse, though each agent's code does"
        yield _remark("joint-syntax", "error", message)


def _use(source: str, name: str, helper: str) -> Finding:
    use = helper_use(source, name, helper)
    if use.used:
        return _remark("calls", "info", f"`{name}` calls `{helper}` and uses its value")
    line = use.lines[0] if use.lines else None
    return _remark("calls", "warning", use.reason.replace("'", "`"), line)


def _remark(
    code: str,
    severity: str,
    message: str,
    line: int | None = None,
    column: int | None = None,
) -> Finding:
    return Finding.model_validate(
        {
            "source": "ast",
            "code": code,
            "severity": severity,
            "message": message,
            "line": line,
            "column": column,
        }
    )


def _locate(outcome: Outcome, finding: Finding) -> tuple[str, Finding] | None:
    """The agent that wrote the line, and the finding in its own lines."""
    last = outcome.joint.text.count("\n")  # where a remark on the program's end belongs
    place = outcome.joint.locate(min(finding.line or 0, last))
    if place is None:
        return None
    agent, line = place
    artefact = outcome.artefacts.get(agent, "")
    blank = len(artefact) - len(artefact.lstrip("\n"))
    return agent, finding.model_copy(update={"line": line + blank})


def _line(finding: Finding) -> str:
    place = f"line {finding.line}: " if finding.line else ""
    code = f"{finding.code} " if finding.source != "ast" else ""
    return f"{place}{code}{' '.join(finding.message.split())[:200]}"
