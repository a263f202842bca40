"""Static analysis of the joint program, reported to each agent for its own lines."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from collab.analysis import helper_use, returns_value
from collab.feedback.plain import Outcome, Source, entry_point
from collab.feedback.tools import IGNORED_CODES, BatchRunner, Severity, files_of, find_tool
from collab.recipe.feedback import StaticFeedbackSpec
from collab.records import Feedback, Finding
from collab.sandbox.jail.files import BadFiles, entry_file, is_files, split_files
from collab.sandbox.programs import program_parses
from collab.syntax import can_parse, parse

JOINT_SYNTAX = "joint-syntax"


def is_author(outcome: Outcome, agent: str) -> bool:
    """Return True if the agent wrote lines of the joint program, or was expected to."""
    roles = outcome.roles
    expected = agent == roles.entry or agent in roles.helpers
    missing = expected and not outcome.artifacts.get(agent, "").strip()
    return agent in outcome.joint.spans or missing


def has_files(outcome: Outcome) -> bool:
    """Return True if the joint program has several files: all its authors begin with a file
    name."""
    lines = outcome.joint.text.split("\n")
    begin = [lines[first - 1] for first, _ in outcome.joint.spans.values()]
    return bool(begin) and all(map(is_files, [outcome.joint.text, *begin]))


@dataclass(frozen=True)
class CodePiece:
    """A piece of the joint program with one author: an agent's lines, or a file."""

    author: str
    source: str
    file: str | None = None
    blank_lines: int = 0
    """Blank lines at the start of the author's answer, which a join removes."""

    def syntax_error(self, whose: str = "its") -> Finding | None:
        """Return the piece's syntax error, if it has one."""
        try:
            parse(self.source)
        except SyntaxError as error:
            what = "the file" if self.file else f"{whose} code"
            message = f"{what} does not parse: {error.msg}"
            line = (error.lineno or 1) + self.blank_lines
            place = {"column": error.offset, "file": self.file}
            return _ast_finding("syntax-error", "error", message, line, **place)
        return None


def pieces_of(outcome: Outcome) -> list[CodePiece]:
    """Return the pieces of the joint program, in order.

    Raises:
        BadFiles: the files are not a program.
    """
    text = outcome.joint.text
    if has_files(outcome):
        places = [(file, outcome.joint.locate(file.line - 1)) for file in split_files(text)]
        return [
            CodePiece(place[0] if place else "", file.source, file.name) for file, place in places
        ]
    lines = text.split("\n")
    return [
        CodePiece(
            agent,
            "\n".join(lines[first - 1 : last]),
            blank_lines=blank_lines(outcome.artifacts.get(agent, "")),
        )
        for agent, (first, last) in outcome.joint.spans.items()
    ]


def agent_findings(
    outcome: Outcome, agent: str, functions: Mapping[str, str], whose: str = "your"
) -> Iterator[Finding]:
    """Yield findings in the pieces of `agent`. `whose` refers to the agent in messages: `your` or
    `its`.

    `functions` are those that agents must define.
    """
    if has_files(outcome) and agent not in outcome.joint.spans:
        message = f"no named file was found in {whose} answer"
        yield _ast_finding("no-code", "error", f"{message}; begin each with a line # file: NAME.py")
        return
    try:
        pieces = pieces_of(outcome)
    except BadFiles as error:
        yield _files_finding(outcome, agent, error)
        return
    own_pieces = [piece for piece in pieces if piece.author == agent]
    if not any(piece.file or piece.source.strip() for piece in own_pieces):
        yield _ast_finding("no-code", "error", f"no code was found in {whose} answer")
        return
    if not program_parses(outcome.joint.text):
        faults = [fault for piece in own_pieces if (fault := piece.syntax_error(whose))]
        if faults:
            yield from faults
            return
        yield _joint_syntax_finding(outcome, pieces, agent)
    yield from _definition_findings(outcome, own_pieces, functions, whose)


def program_findings(outcome: Outcome) -> Iterator[Finding]:
    """Yield findings in the joint program as a whole, for an agent that wrote none of it."""
    if has_files(outcome):
        with suppress(BadFiles):  # the authors' findings report it
            for piece in pieces_of(outcome):
                if not piece.author and (fault := piece.syntax_error()):
                    yield fault
        return
    function = outcome.function
    try:
        tree = parse(outcome.joint.text)
    except SyntaxError as error:
        broken = [piece.author for piece in pieces_of(outcome) if piece.syntax_error()]
        because = f", because of the code of: {', '.join(broken)}" if broken else f": {error.msg}"
        yield _ast_finding(JOINT_SYNTAX, "error", f"the joint program does not parse{because}")
        return
    if function and not outcome.joint.spans and returns_value(tree, function) is None:
        yield _ast_finding("missing", "error", f"the joint program does not define `{function}`")


def _joint_syntax_finding(outcome: Outcome, pieces: Sequence[CodePiece], agent: str) -> Finding:
    """Explain why a joint program does not parse although the agent's own pieces do."""
    broken = [piece for piece in pieces if piece.author != agent and piece.syntax_error()]
    message = "the joint program does not parse"
    if broken:
        names = ", ".join(piece.file or piece.author for piece in broken)
        because = "because of" if broken[0].file else "because of the code of:"
        return _ast_finding(JOINT_SYNTAX, "warning", f"{message}, {because} {names}")
    spread = all(a in outcome.joint.spans for a in outcome.roles.contributors)
    though = ", though each agent's code does" if spread else ""
    return _ast_finding(JOINT_SYNTAX, "error", f"{message}{though}")


def _files_finding(outcome: Outcome, agent: str, error: BadFiles) -> Finding:
    place = outcome.joint.locate(error.lineno or 1)
    if place is None or place[0] == agent:
        return _ast_finding("files", "error", f"the files make no program: {error.msg}")
    message = f"the files make no program, because of {place[0]}: {error.msg}"
    return _ast_finding(JOINT_SYNTAX, "warning", message)


def _definition_findings(
    outcome: Outcome, pieces: Sequence[CodePiece], functions: Mapping[str, str], whose: str
) -> Iterator[Finding]:
    """Yield findings about the functions that the author of `pieces` must define."""
    name = functions.get(pieces[0].author, "")
    if has_files(outcome):
        entry = entry_file(split_files(outcome.joint.text)).name
        for piece in pieces:
            if piece.file == entry and outcome.function:
                yield _definition_finding(
                    [piece.source], outcome.function, f"`{entry}` does not define"
                )
        one_file = f"`{pieces[0].file}` does not define"
        lacking = one_file if len(pieces) == 1 else "no file of yours defines"
        if name:
            yield _definition_finding([piece.source for piece in pieces], name, lacking)
    elif name:
        [piece] = pieces
        by_itself = can_parse(piece.source)
        text = piece.source if by_itself else outcome.joint.text
        finding = _definition_finding([text], name, f"{whose} code does not define")
        yield finding
        if finding.code == "defined" and by_itself and name == outcome.function:
            called = [functions.get(a, "") for a in outcome.agents if a != piece.author]
            yield from (_helper_use_finding(piece, name, helper) for helper in called if helper)


def _definition_finding(sources: Sequence[str], name: str, lacking: str) -> Finding:
    returns = [
        value for source in sources if (value := returns_value(parse(source), name)) is not None
    ]
    if not returns:
        return _ast_finding("missing", "error", f"{lacking} `{name}`")
    if not any(returns):
        return _ast_finding("returns-nothing", "error", f"`{name}` returns no value")
    return _ast_finding("defined", "info", f"`{name}` is defined")


def _helper_use_finding(piece: CodePiece, name: str, helper: str) -> Finding:
    use = helper_use(piece.source, name, helper)
    if use.used:
        return _ast_finding("calls", "info", f"`{name}` calls `{helper}` and uses its value")
    line = use.lines[0] + piece.blank_lines if use.lines else None
    return _ast_finding("calls", "warning", use.reason.replace("'", "`"), line)


def blank_lines(artifact: str) -> int:
    """Return the number of blank lines at an artifact's start, which a join removes."""
    return len(artifact) - len(artifact.lstrip("\n"))


def _ast_finding(
    code: str, severity: Severity, message: str, line: int | None = None, **place: Any
) -> Finding:
    """Return a remark. `place` is its column or its file, if known."""
    return Finding(source="ast", code=code, severity=severity, message=message, line=line, **place)


Remark = tuple[str | None, Finding]
"""A finding with the author of its line: None if the reader is the author, "" if there is none."""
Remarks = Sequence[Remark]

_LINE_REFERENCE = re.compile(r"\bline (\d+)\b")
_SEVERITY_RANK = {"error": 0, "warning": 1, "info": 2}


class Static(Source):
    """Reports syntax errors, the program's structure and linter findings.

    Raises:
        FeedbackUnavailable: on construction, if a listed tool is not installed.
    """

    name = "static"

    def __init__(self, spec: StaticFeedbackSpec) -> None:
        self._spec = spec
        self._tools = [BatchRunner(find_tool(name)) for name in spec.tools if name != "ast"]

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        """Return the findings by agent: authors get those in their lines, other agents get all.

        Raises:
            FeedbackError: the problem is not about code, or a tool failed.
        """
        entry_point(outcome.problem, self.name)  # raises for a problem that asks for no program
        functions = self._functions(outcome)
        remarks = await self._remarks(outcome)
        feedback = {}
        for agent in outcome.agents:
            if is_author(outcome, agent):
                head = "Static analysis"
                shown = self._author_remarks(outcome, agent, functions, remarks)
            else:
                head = "Static analysis of the joint program"
                shown = self._all_remarks(outcome, functions, remarks)
            feedback[agent] = self._feedback(head, shown)
        return feedback

    def _author_remarks(
        self, outcome: Outcome, agent: str, functions: Mapping[str, str], remarks: Remarks
    ) -> list[Remark]:
        with_ast = "ast" in self._spec.tools
        findings = [*agent_findings(outcome, agent, functions)] if with_ast else []
        findings += [each for author, each in remarks if author == agent or each.line is None]
        return [(None, finding) for finding in findings]

    def _all_remarks(
        self, outcome: Outcome, functions: Mapping[str, str], remarks: Remarks
    ) -> list[Remark]:
        """Return the remarks for an agent that wrote none of the program, each with its author's
        name."""
        listed: list[Remark] = []
        if "ast" in self._spec.tools:
            listed += [("", finding) for finding in program_findings(outcome)]
            for author in filter(partial(is_author, outcome), outcome.agents):
                findings = agent_findings(outcome, author, functions, whose="its")
                listed += [(author, each) for each in findings if each.code != JOINT_SYNTAX]
        return [*listed, *remarks]

    async def aclose(self) -> None:
        for tool in self._tools:
            await tool.aclose()

    def _functions(self, outcome: Outcome) -> dict[str, str]:
        """Map each agent to the function that it must define."""
        if has_files(outcome):  # helpers choose their functions' names, and main.py counts
            return dict(self._spec.functions)
        roles, public = outcome.roles, outcome.problem.public
        helpers = {agent: roles.function_of(agent, public) for agent in roles.helpers}
        return {**helpers, roles.entry: outcome.function, **self._spec.functions}

    async def _remarks(self, outcome: Outcome) -> Remarks:
        """Return the tools' remarks on the joint program, each with the author of its line."""
        program = outcome.joint.text
        broken = not program_parses(program)
        tools = [tool for tool in self._tools if not broken or tool.tool.name == "ruff"]
        if broken and "ast" in self._spec.tools:
            return []
        findings = await asyncio.gather(*(tool.check(program) for tool in tools))
        locate = locate_in_file if has_files(outcome) and files_of(program) else _locate
        kept = [each for group in findings for each in group if each.code not in IGNORED_CODES]
        remarks = (locate(outcome, each) if each.line else ("", each) for each in kept)
        return [remark for remark in remarks if remark is not None]

    def _feedback(self, head: str, remarks: Remarks) -> Feedback:
        ranked = sorted(remarks, key=lambda remark: _SEVERITY_RANK[remark[1].severity])
        shown, left = ranked[: self._spec.limit], len(ranked) - self._spec.limit
        lines = [f"- {_format_remark(author, finding)}" for author, finding in shown]
        if left > 0:
            lines.append(f"- and {left} more")
        text = "\n".join([f"{head}:", *lines] if lines else [f"{head}: no remark."])
        findings = tuple(_recorded_finding(author, finding) for author, finding in shown)
        return Feedback(source=self.name, text=text, findings=findings)


def _locate(outcome: Outcome, finding: Finding) -> tuple[str, Finding] | None:
    """Return the author of the line and the finding in the author's lines, or None for a given
    line."""
    place = _own_line(outcome, min(finding.line or 0, _last_line(outcome)))
    if place is None:
        return None if outcome.joint.spans else ("", finding)  # a join may hide the author
    agent, line = place

    def translate(match: re.Match[str]) -> str:
        """Translate a line number in the message to the author's own numbering."""
        other = _own_line(outcome, int(match[1]))
        if other is None:
            return "what the prompt gives"
        return f"line {other[1]}" + (f" of {other[0]}" if other[0] != agent else "")

    message = _LINE_REFERENCE.sub(translate, finding.message)
    return agent, finding.model_copy(update={"line": line, "message": message})


def _last_line(outcome: Outcome) -> int:
    """Return the number of the program's last line, for remarks on its end."""
    return outcome.joint.text.removesuffix("\n").count("\n") + 1


def _own_line(outcome: Outcome, line: int) -> tuple[str, int] | None:
    """Return the author of a line of the joint program, and the line in the author's artifact."""
    place = outcome.joint.locate(line)
    if place is None:
        return None
    return place[0], place[1] + blank_lines(outcome.artifacts.get(place[0], ""))


def _format_remark(author: str | None, finding: Finding) -> str:
    code = f"{finding.code} " if finding.source != "ast" else ""
    return f"{_format_place(author, finding)}{code}{' '.join(finding.message.split())[:200]}"


def _format_place(author: str | None, finding: Finding) -> str:
    line = f"line {finding.line}" if finding.line else ""
    place = ", ".join(part for part in (author, finding.file, line) if part)
    return f"{place}: " if place else ""


def _recorded_finding(author: str | None, finding: Finding) -> Finding:
    """Return a finding with the reader's own line, or with another author's position in the
    message."""
    if author is None:
        return finding
    message = f"{_format_place(author, finding)}{finding.message}"
    return finding.model_copy(
        update={"message": message, "line": None, "file": None, "column": None}
    )


def locate_in_file(outcome: Outcome, finding: Finding) -> tuple[str, Finding]:
    """Return the author of a finding in the whole text, and the finding within its file."""
    line, files = finding.line or 1, split_files(outcome.joint.text)
    file = next((each for each in reversed(files) if each.line <= line), files[0])
    place = outcome.joint.locate(min(line, _last_line(outcome)))
    within = {"file": file.name, "line": max(1, line - file.line + 1)}
    return place[0] if place else "", finding.model_copy(update=within)
