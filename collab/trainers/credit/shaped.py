"""Process rewards: each turn is rewarded for its change to the joint artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.base import Component
from collab.trainers.credit.base import Algorithm, make_algorithm
from collab.trainers.credit.group import Choice, Group, Node, Weights
from collab.trainers.credit.rules import RULES

Potential = Mapping[str, float]
"""Phi of the history after a joint action, by agent."""


class Shaped(Algorithm):
    """Credit with process rewards: A_t = the weight of another rule, for shaped rewards.

    The shaped rewards are r_t + gamma Phi(h_t+1) - Phi(h_t).

    Potential-based shaping (Ng, Harada and Russell 1999). Phi is 0 before the first turn and after
    the last one. An agent that revises is therefore rewarded for its improvement, not for its
    input. The expected gradient and the optimum stay the same. Shaping matters from the second turn
    on, and is valid for every protocol. Phi(h_t) is the reward that the joint artifact of the
    previous turn would earn in the remaining turns if it were kept. It needs no additional play or
    score. Phi may be wrong about later turns, so their shaped rewards count too: they add up to R_t
    - Phi(h_t).

    Args:
        rule: the algorithm that gets the shaped rewards; it must need nothing else.
        options: that algorithm's own options.
        weight: factor of Phi.
    """

    def __init__(
        self,
        *,
        rule: str = "marloo",
        options: dict[str, Any] | None = None,
        weight: float = 1.0,
    ) -> None:
        self._rule = make_algorithm(Component(use=rule, options=options or {}), RULES)
        if not self._rule.goes_by_rewards or self._rule.scores_more:
            raise RecipeError(
                f"algorithm 'shaped' cannot shape '{rule}', whose weights need more than the"
                " rewards of played turns; set its option rule to e.g. 'marloo', 'rae' or 'maac'"
            )
        self._name, self._weight = rule, weight
        for hook in ("open", "measures", "spreads", "state", "restore"):
            setattr(self, hook, getattr(self._rule, hook))
        self.compares, self.pays_as_played = self._rule.compares, self._rule.pays_as_played

    async def credit(self, groups: Sequence[Group]) -> Sequence[Weights]:
        return await self._rule.credit([shaped(group, self._weight) for group in groups])

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError if the rule or the shaping would be biased."""
        self._rule.check(recipe, spec)
        if spec.turn_structure == "greedy":
            raise RecipeError(
                "algorithm 'shaped' has no effect with turn_structure 'greedy', which compares"
                " answers by the reward of one turn; set turn_structure to 'chains' or 'tree', or"
                f" algorithm to '{self._name}'"
            )
        if recipe.team.when_solved == "stop":
            raise RecipeError(
                "algorithm 'shaped' uses the reward of the remaining turns, but with"
                " team.when_solved 'stop' a solved task earns none; set team.when_solved to"
                f" 'absorb', or algorithm to '{self._name}'"
            )

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:
        """Return lines about the shaping, followed by those of the rule."""
        turns = "; a team of one turn has none" if recipe.team.turns == 1 else ""
        return [
            f"credit: '{self._name}' of shaped rewards, from turn 2 on{turns}",
            *self._rule.describe(recipe, spec),
        ]


def shaped(group: Group, weight: float = 1.0) -> Group:
    """Return the group with shaped rewards. The potential of the earlier history is subtracted from
    each return.
    """
    after = {node: _potential(group, node, weight) for node in group.rewards}
    before = {child: after[node] for node, nodes in group.children.items() for child in nodes}
    rewards, returns = {}, {}
    for node, earned in group.rewards.items():
        phi = before.get(node, {})
        rewards[node] = {
            agent: value + group.discount * after[node][agent] - phi.get(agent, 0.0)
            for agent, value in earned.items()
        }
        returns[node] = {a: value - phi.get(a, 0.0) for a, value in group.returns[node].items()}
    absorbed = {
        turn: tuple({a: (1 - weight) * value for a, value in earned.items()} for earned in every)
        for turn, every in group.absorbed.items()
    }
    return replace(group, rewards=rewards, returns=returns, absorbed=absorbed, ask=_refuse)


def _potential(group: Group, node: Node, weight: float) -> Potential:
    """Return the reward that the joint artifact would earn in the remaining turns."""
    episode = group.episodes[node[0]]
    left = (episode.horizon or len(episode.turns)) - 1 - node[1]
    turns = fsum(group.discount**k for k in range(left))
    return {agent: weight * turns * value for agent, value in group.rewards[node].items()}


async def _refuse(
    _nodes: Sequence[Node], _choices: Sequence[Choice]
) -> list[Mapping[str, float] | None]:
    raise TrainingError(
        "algorithm 'shaped' shapes the rewards of played turns, but its rule needs rewards of"
        " other joint actions; set its option rule to one that does not, e.g. 'marloo'"
    )
