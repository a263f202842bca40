"""Remarks on a program of several files: each names the file, and the line in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from collab.analysis import returns_value
from collab.feedback.plain import Outcome
from collab.records import Finding
from collab.sandbox.jail.files import BadFiles, File, entry_file, is_files, split_files
from collab.syntax import parse

JOINT = "joint-syntax"


def has_files(outcome: Outcome) -> bool:
    """Whether the joint program is of several files: all who wrote of it begin with a name."""
    lines = outcome.joint.text.split("\n")
    begin = [lines[first - 1] for first, _ in outcome.joint.spans.values()]
    return bool(begin) and all(map(is_files, [outcome.joint.text, *begin]))


def files_of(text: str) -> tuple[File, ...]:
    """The files of a program; none where it is one text, or its files make no program."""
    try:
        return split_files(text) if is_files(text) else ()
    except BadFiles:
        return ()


def located_in_file(outcome: Outcome, finding: Finding) -> tuple[str, Finding]:
    """A finding with its line in the whole text: whose it is, and the finding in its file."""
    line, files = finding.line or 1, split_files(outcome.joint.text)
    file = next((each for each in reversed(files) if each.line <= line), files[0])
    place = outcome.joint.locate(min(line, outcome.joint.text.count("\n")))
    within = {"file": file.name, "line": max(1, line - file.line + 1)}
    return place[0] if place else "", finding.model_copy(update=within)


def of_files(
    outcome: Outcome, agent: str, functions: Mapping[str, str], whose: str = "your"
) -> Iterator[Finding]:
    """Remarks on the files of `agent`; `functions` are those that an agent is to define."""
    if agent not in outcome.joint.spans:
        told = f"no named file was found in {whose} answer; begin each with a line # file: NAME.py"
        yield _error("no-code", told)
        return
    try:
        files = split_files(outcome.joint.text)
    except BadFiles as error:
        yield _no_program(outcome, agent, error)
        return
    own = [file for file in files if _writer(outcome, file) == agent]
    broken = [finding for file in own for finding in _faults(file)]
    yield from broken
    if broken:
        return
    others = [file.name for file in files if file not in own and any(_faults(file))]
    if others:
        told = f"the joint program does not parse, because of {', '.join(others)}"
        yield _error(JOINT, told).model_copy(update={"severity": "warning"})
    entry = entry_file(files)
    if entry in own and outcome.function:
        yield from _defined([entry], outcome.function)
    if asked := functions.get(agent, ""):
        yield from _defined(own, asked)


def of_all_files(outcome: Outcome) -> Iterator[Finding]:
    """Remarks on the joint program, for somebody who wrote none of it."""
    try:
        files = split_files(outcome.joint.text)
    except BadFiles as error:
        yield _error(JOINT, f"the files make no program: {error.msg}")
        return
    for file in files:
        yield from _faults(file)


def _no_program(outcome: Outcome, agent: str, error: BadFiles) -> Finding:
    place = outcome.joint.locate(error.lineno or 1)
    if place is None or place[0] == agent:
        return _error("files", f"the files make no program: {error.msg}")
    told = f"the files make no program, because of {place[0]}: {error.msg}"
    return _error(JOINT, told).model_copy(update={"severity": "warning"})


def _writer(outcome: Outcome, file: File) -> str:
    place = outcome.joint.locate(file.line - 1)  # the line that names it
    return place[0] if place else ""


def _faults(file: File) -> Iterator[Finding]:
    try:
        parse(file.source)
    except SyntaxError as error:
        told = f"the file does not parse: {error.msg}"
        yield _error("syntax-error", told, file.name, error.lineno or 1)


def _defined(files: list[File], name: str) -> Iterator[Finding]:
    found = [
        value for file in files if (value := returns_value(parse(file.source), name)) is not None
    ]
    where = f"`{files[-1].name}`" if len(files) == 1 else "no file of yours"
    if not found:
        told = f"{where} does not define" if len(files) == 1 else f"{where} defines"
        yield _error("missing", f"{told} `{name}`")
    elif not any(found):
        yield _error("returns-nothing", f"`{name}` returns no value")
    else:
        told = f"`{name}` is defined"
        yield _error("defined", told).model_copy(update={"severity": "info"})


def _error(code: str, message: str, file: str | None = None, line: int | None = None) -> Finding:
    return Finding(source="ast", code=code, severity="error", message=message, file=file, line=line)
