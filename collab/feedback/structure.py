"""What the syntax tree of the joint program shows: what parses, is defined and is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from collab.analysis import helper_use, returns_value
from collab.feedback.outcome import Outcome
from collab.records import Finding
from collab.syntax import parse, parses

JOINT = "joint-syntax"


def writes(outcome: Outcome, agent: str) -> bool:
    """Whether the agent wrote lines of the joint program, or was to write some."""
    roles = outcome.roles
    expected = agent == roles.entry or agent in roles.helpers
    missing = expected and not outcome.artefacts.get(agent, "").strip()
    return agent in outcome.joint.spans or missing


def structure(
    outcome: Outcome, agent: str, functions: Mapping[str, str], whose: str = "your"
) -> Iterator[Finding]:
    """Remarks on the lines of `agent`; `whose` they are, as the reader is told."""
    source = lines_of(outcome, agent)
    if not source.strip():
        yield _remark("no-code", "error", f"no code was found in {whose} answer")
        return
    if not parses(outcome.joint.text):
        try:
            parse(source)
        except SyntaxError as error:
            message = f"{whose} code does not parse: {error.msg}"
            line = (error.lineno or 1) + blank_lines(outcome.artefacts.get(agent, ""))
            yield _remark("syntax-error", "error", message, line, error.offset)
            return
        yield from _joined(outcome, agent)
    name = functions.get(agent, "")
    if name:
        yield from _defined(outcome, agent, name, functions, whose)


def whole(outcome: Outcome) -> Iterator[Finding]:
    """Remarks on the joint program, for somebody who wrote none of it."""
    function = outcome.function
    try:
        tree = parse(outcome.joint.text)
    except SyntaxError as error:
        broken = _broken(outcome)
        because = f", because of the code of: {', '.join(broken)}" if broken else f": {error.msg}"
        yield _remark(JOINT, "error", f"the joint program does not parse{because}")
        return
    if function and not outcome.joint.spans and returns_value(tree, function) is None:
        yield _remark("missing", "error", f"the joint program does not define `{function}`")


def lines_of(outcome: Outcome, agent: str) -> str:
    """What of the joint program the agent wrote."""
    first, last = outcome.joint.spans.get(agent, (1, 0))
    return "\n".join(outcome.joint.text.split("\n")[first - 1 : last])


def _defined(
    outcome: Outcome, agent: str, name: str, functions: Mapping[str, str], whose: str
) -> Iterator[Finding]:
    source = lines_of(outcome, agent)
    by_itself = parses(source)
    returns = returns_value(parse(source if by_itself else outcome.joint.text), name)
    if returns is None:
        yield _remark("missing", "error", f"{whose} code does not define `{name}`")
    elif not returns:
        yield _remark("returns-nothing", "error", f"`{name}` returns no value")
    else:
        yield _remark("defined", "info", f"`{name}` is defined")
        if by_itself and name == outcome.problem.public["entry_point"]:
            called = [functions.get(other, "") for other in outcome.agents if other != agent]
            blank = blank_lines(outcome.artefacts.get(agent, ""))
            yield from (_use(source, name, other, blank) for other in called if other)


def _joined(outcome: Outcome, agent: str) -> Iterator[Finding]:
    """Why a joint program does not parse of which the agent's own lines do."""
    broken = [other for other in _broken(outcome) if other != agent]
    if broken:
        message = f"the joint program does not parse, because of the code of: {', '.join(broken)}"
        yield _remark(JOINT, "warning", message)
        return
    spread = all(a in outcome.joint.spans for a in outcome.roles.contributors)
    though = ", though each agent's code does" if spread else ""
    yield _remark(JOINT, "error", f"the joint program does not parse{though}")


def _broken(outcome: Outcome) -> list[str]:
    """The agents whose lines of the joint program do not parse by themselves."""
    return [agent for agent in outcome.joint.spans if not parses(lines_of(outcome, agent))]


def _use(source: str, name: str, helper: str, blank: int) -> Finding:
    use = helper_use(source, name, helper)
    if use.used:
        return _remark("calls", "info", f"`{name}` calls `{helper}` and uses its value")
    line = use.lines[0] + blank if use.lines else None
    return _remark("calls", "warning", use.reason.replace("'", "`"), line)


def blank_lines(artefact: str) -> int:
    """Blank lines at an artefact's start, which a join leaves out."""
    return len(artefact) - len(artefact.lstrip("\n"))


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
