"""Judging a probe's answers in further combinations, by the same code as `algorithm: cross`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from collab.models.fakes.echo import EchoModel
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode, Problem, Score
from collab.runs import metric_names as names
from collab.runtime.session import Session
from collab.trainers.credit import Group, Weights
from collab.trainers.credit.assign import group_of
from collab.trainers.credit.counterfactual.cross import Cross
from collab.trainers.credit.counterfactual.forms import Form, forms
from collab.trainers.credit.counterfactual.rule import MOST_SCORED, scored_at_most
from collab.trainers.credit.joint_actions import JointActions, joined
from collab.trainers.credit.shape import Shape

NEGLIGIBLE = 1e-9
"""Weights up to this are 0 but for rounding."""


@dataclass
class Judged:
    """One task's group, and what its answers make in the first turn."""

    group: Group
    forms: Mapping[str, Form]
    played: list[Score]
    further: list[Score] = field(default_factory=list)
    """Of every combination that was not played; empty where not all may be made."""
    combinations: int | None = None
    scored: int = 0
    failed: int = 0


class Crossing:
    """Judges groups, one after the other; no model is asked."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        trainer = recipe.trainer or TrainerSpec()
        chains = {"joint_mode": "aligned", "turn_structure": "chains"}
        self._spec = trainer.model_copy(update=chains)
        is_game = recipe.task is not None and recipe.task.environment is not None
        self.crosses = not (is_game and recipe.team.turns > 1)
        """Not in a game of several turns: what a joint action earns depends on those before it."""

    async def judge(self, played: Sequence[tuple[Problem, Sequence[Episode]]]) -> list[Judged]:
        """The groups of tasks with their whole episodes, with further joint actions scored."""
        silent = dict.fromkeys(self._recipe.team.agents, EchoModel())
        one_turn = self._recipe.model_copy(
            update={"team": self._recipe.team.model_copy(update={"turns": 1})}
        )  # no feedback is given, so no source is opened
        session = await Session(one_turn, models=silent, serve=False).open()
        try:
            return [await self._judge(session, *item) for item in played]
        finally:
            await session.aclose()

    async def weights(
        self, judged: Sequence[Judged]
    ) -> tuple[list[Weights], Mapping[str, float]] | None:
        """What `cross` gives each group, and what it measures; None where nothing is crossed."""
        groups = [item.group for item in judged]
        n_agents = max((len(joined(g.episodes[0].turns[0])) for g in groups), default=1)
        if n_agents < 2 or not self.crosses:
            return None
        size = max(len(group.episodes) for group in groups)
        fits = scored_at_most(size, n_agents, "all") <= MOST_SCORED
        cross = Cross(shifts="all" if fits else None)
        return await cross.credit(groups), cross.measures()

    async def _judge(
        self, session: Session, problem: Problem, episodes: Sequence[Episode]
    ) -> Judged:
        found: list[Score] = []

        async def score(problem: Problem, artefacts: Mapping[str, str]) -> Score:
            found.append(await session.score(problem, artefacts))
            judged.scored += 1
            return found[-1]

        joint = JointActions(problem, episodes, self._spec, score)
        agents = tuple(self._recipe.team.agents)
        shape = Shape("chains", len(episodes), self._recipe.team.turns)
        group = await group_of(episodes, joint, agents=agents, spec=self._spec, shape=shape)
        nodes = [(number, 0) for number in range(len(episodes))]
        scores = [e.turns[0].score for e in episodes]
        judged = Judged(group, forms(group, nodes), [s for s in scores if s is not None])
        team = list(joined(episodes[0].turns[0]))
        combinations = len(nodes) ** len(team)
        crossed = (
            self.crosses and len(team) > 1 and all(judged.forms[name] == "crossed" for name in team)
        )
        if crossed and combinations <= MOST_SCORED:
            choices = product(range(len(nodes)), repeat=len(team))
            await group.score(nodes, [dict(zip(team, choice, strict=True)) for choice in choices])
            judged.further, judged.combinations = list(found), combinations
        judged.failed = len(joint.failures)
        return judged


def is_dead(weights: Weights) -> bool:
    """Whether nothing would be learned from a group."""
    numbers = (w if isinstance(w, Sequence) else (w,) for w in weights.values())
    return all(abs(number) <= NEGLIGIBLE for each in numbers for number in each)


def shares(measures: Mapping[str, float], pattern: str, agents: Sequence[str]) -> dict[str, float]:
    """By agent: a share of the reward's variance, where it was measured."""
    found = {agent: measures.get(names.named(pattern, agent)) for agent in agents}
    return {agent: value for agent, value in found.items() if value is not None}
