"""One turn of an episode, as a protocol plays it: who acts, on what, and whose answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from collab.errors import AgentError

Sees = Literal["nothing", "all"] | Iterable[str]
"""Whose answers of the turn an agent is shown: nobody's, those of all who have acted, or those
of the agents that are named."""


@dataclass(frozen=True)
class Round:
    """Agents that act at the same time: none of them sees what the others of the round do."""

    number: int
    """Position within the turn, from 0."""
    agents: tuple[str, ...]
    template: str
    """The name of the template that makes each agent's observation."""
    others: Mapping[str, Mapping[str, str]]
    """By agent: the answers of the turn that it is shown, by who gave them."""
    otherwise: str | None = None
    """The template's text for agents that have none of that name."""
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By agent: what its template sees besides the fields that every template sees."""


Play = Callable[[Round], Awaitable[Mapping[str, str]]]
"""Plays a round; returns each agent's artefact."""


class Turn:
    """The input of a protocol, which is an async function of a turn and of options.

    Agents that act in one call of `together` are independent of each other given what came
    before; the record keeps for each response whose answers it was shown.
    """

    def __init__(
        self,
        index: int,
        agents: Iterable[str],
        play: Play,
        acted: Iterable[str] = (),
        previous: Mapping[str, str] | None = None,
    ) -> None:
        self.index = index
        """Which turn of the episode it is, from 0."""
        self.agents = tuple(agents)
        """The team in its order."""
        self.artefacts: dict[str, str] = {}
        """By agent: its latest answer in this turn, as its parser made it."""
        self.previous: Mapping[str, str] = previous or {}
        """By agent: its answer in the turn before; empty in the first one."""
        self.chosen: tuple[str, ...] | None = None
        """The agents whose answers count; None leaves it to the team."""
        self._play = play
        self._acted = set(acted)
        self._rounds = 0
        self._one_round = asyncio.Lock()

    async def act(
        self,
        agent: str,
        template: str = "prompt",
        *,
        sees: Sees = "nothing",
        otherwise: str | None = None,
        **fields: Any,
    ) -> str:
        """Let one agent act; returns its answer.

        `fields` are further fields that the template sees; the others are those of `together`.
        """
        answers = await self.together(
            [agent], template, sees=sees, otherwise=otherwise, fields={agent: fields}
        )
        return answers[agent]

    async def together(
        self,
        agents: Iterable[str] | None = None,
        template: str = "prompt",
        *,
        sees: Sees | Mapping[str, Sees] = "nothing",
        otherwise: str | None = None,
        fields: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Mapping[str, str]:
        """Let agents act at the same time; returns their answers by agent.

        Args:
            agents: who acts; all of the team where it is None.
            template: the name of the template of each agent's observation. `prompt` is `revise`
                for an agent that has acted before.
            sees: whose answers of this turn the templates see, as `others`; a mapping says it
                for each agent.
            otherwise: the template for agents that have none of that name.
            fields: by agent: further fields that its template sees.

        Raises:
            AgentError: an agent that the team does not have, one that is named twice, or nobody.
        """
        names = self.agents if agents is None else tuple(agents)
        self._check(names)
        async with self._one_round:
            others = {name: self._shown_to(name, sees) for name in names}
            round_ = Round(self._rounds, names, template, others, otherwise, fields or {})
            self._rounds += 1
            answers = await self._play(round_)
            self.artefacts.update(answers)
            self._acted.update(names)
            return answers

    def acted(self, agent: str) -> bool:
        """True if an agent has acted before, in this turn or an earlier one."""
        return agent in self._acted

    def choose(self, *agents: str) -> None:
        """Let only these agents' answers make the joint artefact."""
        self._check(agents)
        self.chosen = agents

    def previous_of_others(self, agent: str) -> dict[str, str]:
        """The answers of the other agents in the turn before."""
        return {other: answer for other, answer in self.previous.items() if other != agent}

    def joined(self, contributors: Iterable[str]) -> tuple[str, ...]:
        """The contributors whose answers make the joint artefact.

        Raises:
            AgentError: nobody.
        """
        counts = self.chosen or tuple(self.artefacts)
        writers = tuple(contributors)
        joined = tuple(name for name in self.agents if name in counts and name in writers)
        if not joined:
            raise AgentError(
                f"the answers that count are those of {', '.join(counts)}, and none of these agents"
                f" writes the team's answer (who does: {', '.join(writers)}); set"
                " 'contributes: true' for one"
            )
        return joined

    def _shown_to(self, agent: str, sees: Sees | Mapping[str, Sees]) -> dict[str, str]:
        """The answers of others that an agent is shown."""
        if isinstance(sees, Mapping):
            sees = sees.get(agent, "nothing")
        if sees == "nothing":
            return {}
        names = tuple(self.artefacts) if sees == "all" else tuple(sees)
        if names:
            self._check(names)
        return {n: self.artefacts[n] for n in names if n != agent and n in self.artefacts}

    def _check(self, agents: tuple[str, ...]) -> None:
        if not agents:
            raise AgentError("the protocol named no agent to act")
        if len(set(agents)) < len(agents):
            raise AgentError(f"the protocol names an agent twice at a time: {', '.join(agents)}")
        for agent in agents:
            if agent not in self.agents:
                raise AgentError(
                    f"the protocol names the agent '{agent}', which the team does not have; its"
                    f" agents: {', '.join(self.agents)}"
                )
