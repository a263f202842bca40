"""Protocols: who acts when within a turn, and what of the others each one sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from collab.recipe.team import Protocol

Sees = Literal["nothing", "earlier", "all"]


@dataclass(frozen=True)
class Round:
    """Agents that act at the same time."""

    agents: tuple[str, ...]
    sees: Sees = "nothing"
    """`earlier`: the artefacts of the turn's earlier rounds; `all`: those of every other agent,
    as a reason to reconsider one's own."""


def rounds_of(protocol: Protocol, agents: Sequence[str]) -> tuple[Round, ...]:
    """The rounds of one turn."""
    together = tuple(agents)
    if protocol == "sequential":
        return tuple(Round((agent,), sees="earlier") for agent in agents)
    if protocol == "discussion":
        return (Round(together), Round(together, sees="all"))
    return (Round(together),)
