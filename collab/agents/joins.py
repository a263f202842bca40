"""Joins: from the agents' artefacts to the joint artefact, with a map back."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from collab.plugins import find
from collab.records import Problem
from collab.syntax import parse


@dataclass(frozen=True)
class Joint:
    """A joint artefact, and which of its lines came from which agent."""

    text: str
    spans: Mapping[str, tuple[int, int]]
    """By agent: first and last line, 1-based, both included."""

    def locate(self, line: int) -> tuple[str, int] | None:
        """The agent that wrote a line of the joint artefact, and the line in its own artefact."""
        for agent, (first, last) in self.spans.items():
            if first <= line <= last:
                return agent, line - first + 1
        return None


_FUTURE = re.compile(r"^from __future__ import .+$", re.MULTILINE)

Join = Callable[[Mapping[str, str], Problem], Joint]


def join_for(name: str) -> Join:
    """The join called `name`, or the user's own at `module:function`."""
    join: Join = find("join", name, {"text": join_text, "python": join_python})
    return join


def join_text(artefacts: Mapping[str, str], problem: Problem) -> Joint:  # noqa: ARG001
    """The artefacts below each other, in the agents' order."""
    return _stack(dict(artefacts), "\n\n")


def join_python(artefacts: Mapping[str, str], problem: Problem) -> Joint:
    """One program: the prompt's imports and helper functions, then each agent's code in order.

    `from __future__` imports go to the top, the only place where Python allows them; a comment
    stays in the place of each, so that lines keep their numbers.
    """
    given = preamble(
        str(problem.public.get("prompt", "")), str(problem.public.get("entry_point", ""))
    )
    future = dict.fromkeys(
        line for artefact in artefacts.values() for line in _FUTURE.findall(artefact)
    )
    pieces = {agent: _FUTURE.sub(r"# \g<0>", artefact) for agent, artefact in artefacts.items()}
    return _stack({"": "\n".join([*future, given]), **pieces}, "\n\n\n")


def preamble(prompt: str, entry_point: str) -> str:
    """What a code prompt gives beside the function to be written: imports and helpers."""
    try:
        tree = parse(prompt)
    except SyntaxError:
        return ""
    given = [
        ast.get_source_segment(prompt, node) or ""
        for node in tree.body
        if not (isinstance(node, ast.FunctionDef) and node.name == entry_point)
    ]
    return "\n".join(given)


def _stack(pieces: dict[str, str], separator: str) -> Joint:
    text, spans = "", {}
    for agent, source in pieces.items():
        piece = source.strip("\n")
        if not piece:
            continue
        text += separator if text else ""
        first = text.count("\n") + 1
        text += piece
        if agent:
            spans[agent] = (first, text.count("\n") + 1)
    return Joint(text + "\n" if text else "", spans)
