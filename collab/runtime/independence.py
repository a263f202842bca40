"""Determines which responses of a turn depend on each other, and which may therefore be exchanged.

Given the earlier turns, an agent's response depends on the answers that the agent saw, and on the
answers that these depend on. Agents that act more than once in a turn depend on themselves. If
another agent reacted to the first response, all of the agent's answers depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collab.records import Turn
from collab.runtime.rehearsal import RehearsedTurn

Act = tuple[str, int, tuple[str, ...]]
"""An agent, the round in which it acts, and the agents whose answers it sees."""


@dataclass(frozen=True)
class Dependence:
    """The dependence between the agents' answers in one turn."""

    followers: Mapping[str, frozenset[str]]

    def descendants(self, agent: str) -> frozenset[str]:
        """Return the other agents that have an answer that depends on an answer of `agent`."""
        return self.followers.get(agent, frozenset()) - {agent}

    def ancestors(self, agent: str) -> frozenset[str]:
        """Return the other agents on whose answers an answer of `agent` depends."""
        return frozenset(name for name in self.followers if agent in self.followers[name]) - {agent}

    def is_alone(self, agent: str, team: Iterable[str]) -> bool:
        """Return True if the answers of `agent` and of the others in `team` are independent.

        No answer of any agent, in `team` or not, is then behind both.
        """
        sources = {agent} | self.ancestors(agent)
        others = (name for name in team if name != agent)
        return all(sources.isdisjoint({name} | self.ancestors(name)) for name in others)


def recorded_dependence(turn: Turn) -> Dependence:
    """Return the dependence between the answers in a recorded turn."""
    return find_dependence([(d.agent, d.round, d.saw) for d in turn.decisions])


def planned_dependence(turn: RehearsedTurn) -> Dependence:
    """Return the dependence between the answers in a rehearsed turn."""
    return find_dependence(
        [
            (agent, round_.number, round_.seen_by(agent))
            for round_ in turn.rounds
            for agent in round_.agents
        ]
    )


def are_independent(turn: RehearsedTurn) -> bool:
    """Return True if no joined answers depend on each other, and the protocol chooses none."""
    depends = planned_dependence(turn)
    return not turn.is_chosen and all(depends.is_alone(a, turn.joined) for a in turn.joined)


def find_dependence(acts: Iterable[Act]) -> Dependence:
    """Return the dependence between acts, given in the order in which they happened."""
    sources: list[frozenset[tuple[str, int]]] = []  # by act: itself, and all that it depends on
    done: list[tuple[str, int]] = []
    for agent, round_, saw in acts:
        reached = frozenset({(agent, round_)})
        for (other, earlier), its_sources in zip(done, sources, strict=True):
            if other == agent or (other in saw and earlier < round_):
                reached |= its_sources
        done.append((agent, round_))
        sources.append(reached)
    followers: dict[str, set[str]] = {agent: set() for agent, _ in done}
    for (agent, _), its_sources in zip(done, sources, strict=True):
        for source, _ in its_sources:
            followers[source].add(agent)
    return Dependence({agent: frozenset(names) for agent, names in followers.items()})
