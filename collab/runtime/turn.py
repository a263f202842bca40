"""One turn of a protocol: its rounds, their inputs, and the chosen answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from collab.errors import AgentError, RecipeError
from collab.records import Feedback
from collab.records.former import FormerArtifacts

Sees = Literal["nothing", "all"] | Iterable[str]
"""The answers of the turn that an agent sees: none, all so far, or the named agents'."""


@dataclass(frozen=True)
class Round:
    """Agents that act at the same time. None of them sees the others' actions of the round."""

    number: int
    """Position within the turn, from 0."""
    agents: tuple[str, ...]
    template: str
    """Name of the template that makes each agent's observation."""
    others: Mapping[str, Mapping[str, str]]
    """Answers of the turn that each agent sees, by their authors."""
    otherwise: str | None = None
    """Template text for agents that lack a template with that name."""
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fields of each agent's template, in addition to those that every template sees."""
    examined: tuple[str, ...] = ()
    """Agents whose answers were already examined by feedback in this turn."""

    def seen_by(self, agent: str) -> tuple[str, ...]:
        """Return the agents whose answers `agent` sees in this round, directly or by feedback."""
        examined = (name for name in self.examined if name != agent)
        return tuple(dict.fromkeys((*self.others.get(agent, ()), *examined)))


ActRound = Callable[[Round], Awaitable[Mapping[str, str]]]
"""Runs a round and returns each agent's artifact."""
TurnFeedback = Mapping[str, tuple[Feedback, ...]]
"""Feedback by agent, in the order of the sources."""


class Turn(FormerArtifacts):
    """One turn of an episode, as a protocol gets it.

    A protocol is an async function of a turn and of options. Agents in one call of `together` act
    independently of each other. The record lists the answers that each response saw.
    """

    def __init__(
        self,
        index: int,
        agents: Iterable[str],
        act_round: ActRound,
        acted: Iterable[str] = (),
        previous: Mapping[str, str] | None = None,
        *,
        get_feedback: Callable[[Turn], Awaitable[TurnFeedback]] | None = None,
    ) -> None:
        self.index = index
        """Index of the turn in the episode, from 0."""
        self.agents = tuple(agents)
        """Agents of the team, in order."""
        self.artifacts: dict[str, str] = {}
        """Each agent's latest answer in this turn, as parsed."""
        self.previous: Mapping[str, str] = previous or {}
        """Each agent's answer in the previous turn, empty in the first turn."""
        self.chosen: tuple[str, ...] | None = None
        """Agents whose answers count, or None if the protocol has not chosen."""
        self._act_round, self._get_feedback = act_round, get_feedback
        self._acted = set(acted)
        self._rounds = 0
        self._examined: tuple[str, ...] = ()
        self._round_lock = asyncio.Lock()

    async def act(
        self,
        agent: str,
        template: str = "prompt",
        *,
        sees: Sees = "nothing",
        otherwise: str | None = None,
        **fields: Any,
    ) -> str:
        """Let one agent act and return its answer.

        `fields` are additional variables of the template. For the other arguments, see `together`.
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
        """Let agents act at the same time, and return their answers by agent.

        Args:
            agents: the agents to act, or None for the whole team.
            template: the name of the template of each agent's observation. `prompt` becomes
                `revise` for an agent that has acted before.
            sees: the answers of this turn that templates see as `others`; a mapping sets them per
                agent.
            otherwise: the template for agents that lack a template with that name.
            fields: by agent: additional fields for the agent's template.

        Raises:
            AgentError: the team lacks an agent, an agent is named twice, or there is no agent.
        """
        if isinstance(agents, str):
            raise AgentError(f"together takes a list of agents, got the text {agents!r:.60}")
        names = self.agents if agents is None else tuple(agents)
        sees = sees if isinstance(sees, str | Mapping) else tuple(sees)
        self._check_agents(names)
        async with self._round_lock:
            others = {name: self._visible_answers(name, sees) for name in names}
            round_ = Round(
                self._rounds, names, template, others, otherwise, fields or {}, self._examined
            )
            self._rounds += 1
            answers = await self._act_round(round_)
            self.artifacts.update(answers)
            self._acted.update(names)
            return answers

    async def feedback(self) -> TurnFeedback:
        """Return feedback on the answers so far, by agent, from the team's sources.

        After this call, all answers of the turn count as dependent on the answers so far.

        Raises:
            RecipeError: the team has no feedback source.
            FeedbackError, SandboxError: a source fails.
        """
        if self._get_feedback is None:
            raise RecipeError(
                "the protocol asks for feedback, but the team has no source of it; set"
                " team.feedback, e.g. to [execution] (a server omits some, see collab serve --help)"
            )
        self._examined = tuple(self.artifacts)
        return await self._get_feedback(self)

    def acted(self, agent: str) -> bool:
        """Return True if an agent has acted before, in this turn or an earlier one."""
        return agent in self._acted

    def choose(self, *agents: str) -> None:
        """Make the joint artifact from the answers of these agents only."""
        self._check_agents(agents)
        self.chosen = agents

    def previous_of_others(self, agent: str) -> dict[str, str]:
        """Return the others' answers in the previous turn, by agent; empty in the first turn."""
        return {other: answer for other, answer in self.previous.items() if other != agent}

    def joined(self, contributors: Iterable[str]) -> tuple[str, ...]:
        """Return the agents in `contributors` whose answers make the joint artifact.

        Raises:
            AgentError: none of them has an answer that counts, or a chosen one has not acted.
        """
        if not self.artifacts:
            raise AgentError("the protocol ends a turn without letting any agent act")
        counts = self.chosen or tuple(self.artifacts)
        writers = tuple(contributors)
        joined = tuple(name for name in self.agents if name in counts and name in writers)
        if not joined:
            raise AgentError(
                f"the protocol uses only the answers of {', '.join(counts)}, but the agents that"
                f" contribute are {', '.join(writers)}; set 'contributes: true' for one of the"
                " former"
            )
        if silent := [name for name in joined if name not in self.artifacts]:
            raise AgentError(
                f"the protocol chooses the answer of {', '.join(silent)}, but only"
                f" {', '.join(self.artifacts)} acted in this turn"
            )
        return joined

    def _visible_answers(self, agent: str, sees: Sees | Mapping[str, Sees]) -> dict[str, str]:
        if isinstance(sees, Mapping):
            sees = sees.get(agent, "nothing")
        if sees == "nothing":
            return {}
        if isinstance(sees, str) and sees != "all":
            raise AgentError(
                f"sees must be 'nothing', 'all' or a list of agents, got the text {sees!r:.60}"
            )
        names = tuple(self.artifacts) if sees == "all" else tuple(sees)
        if names:
            self._check_agents(names)
        return {n: self.artifacts[n] for n in names if n != agent and n in self.artifacts}

    def _check_agents(self, agents: tuple[str, ...]) -> None:
        if not agents:
            raise AgentError(
                f"the protocol names no agent; name at least one of {', '.join(self.agents)}"
            )
        if len(set(agents)) < len(agents):
            raise AgentError(f"the protocol has an agent twice in one round: {', '.join(agents)}")
        for agent in agents:
            if agent not in self.agents:
                raise AgentError(
                    f"the protocol uses the unknown agent '{agent}'; the team's agents:"
                    f" {', '.join(self.agents)}"
                )
