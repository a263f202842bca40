"""The roles of a team's agents: contributors, the entry point's writer, helpers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ENTRY = "$entry"
"""In a reward part's options: the agent that has the entry role."""
HELPER = "$helper"
"""In a reward part's options: each of the helpers in turn."""
HELPER_NAME = "helper_name"
"""The field of a code problem that names the function its helper writes."""


@dataclass(frozen=True)
class Roles:
    """Agents by what they do, each in the team's order."""

    contributors: tuple[str, ...]
    """They write the answer: the join is handed what they wrote."""
    entry: str
    """Writes the function that a code problem asks for, its entry point."""
    helpers: tuple[str, ...]
    """They write functions that the entry agent may call."""

    def among(self, agents: Collection[str]) -> Roles:
        """The roles where only these agents' answers count, as a protocol may choose."""
        contributors = tuple(agent for agent in self.contributors if agent in agents)
        writers = [agent for agent in contributors if agent in (self.entry, *self.helpers)]
        entry = self.entry if self.entry in writers else [*contributors, *writers][-1]
        return Roles(contributors, entry, tuple(agent for agent in writers if agent != entry))

    def function_of(self, agent: str, public: Mapping[str, Any]) -> str:
        """The function that a helper writes for a problem; of other agents their own name."""
        named = public.get(HELPER_NAME) if agent in self.helpers else None
        return str(named or agent)

    def lacks(self, name: str, agents: Collection[str]) -> str:
        """Why a team of `agents` has nobody called `name`, an agent or a role; "" where it has."""
        if name == HELPER and not self.helpers:
            return f"the team has no helper: only {self.entry} writes code"
        if name not in (ENTRY, HELPER) and name not in agents:
            return f"the team has no agent '{name}'"
        return ""


NOBODY = Roles((), "", ())


def roles_of(
    contributors: Sequence[str], *, parsers: Mapping[str, str] | None = None, entry: str = ""
) -> Roles:
    """The roles of agents that write the answer together.

    Where some of them have a parser for code, those whose parser is `text` write no function.

    Args:
        parsers: by agent; agents that it leaves out write code.
        entry: default `main`, where it writes; else the last one that writes functions.
    """
    known = parsers or {}
    writers = [agent for agent in contributors if known.get(agent) != "text"] or [*contributors]
    entry = entry or ("main" if "main" in writers else writers[-1])
    return Roles(tuple(contributors), entry, tuple(agent for agent in writers if agent != entry))
