"""Process rewards: each turn is paid for what it made of the joint artefact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, Literal

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.component import Component
from collab.stats import mean
from collab.trainers.credit.base import (
    ChecksRecipe,
    Describes,
    Measures,
    Spreads,
    TeamModels,
    UsesModels,
    goes_by_rewards,
    make_algorithm,
    pays_as_played,
)
from collab.trainers.credit.group import Choice, Group, Key, Node, Weights
from collab.trainers.credit.rules import RULES
from collab.trainers.credit.shape import Further

Worth = Mapping[str, float]
"""By agent: the return from a state on."""


def valued(group: Group) -> Group:
    """The group, each turn paid for what it made of the state: r_t + gamma V(h_t+1) - V(h_t).

    V(h) is the mean return of the continuations from h, which are drawn as the team plays and do
    not depend on how the episode itself went on; V of the first state is 0, and that of an ended
    episode what absorbing earns. E[V(h_t+1)] is the value of h_t+1, so that the turn's own reward
    with it has the mean of R_t, and V(h_t) is a baseline: the gradient stays as it is. Where all
    continuations from a state were lost, the episode's own return takes the place of V(h_t+1),
    and the mean over the other episodes that of V(h_t).
    """
    worth = _values(group)
    parents = {child: node for node, found in group.children.items() for child in found}
    paid = {}
    for node, earned in group.rewards.items():
        after, before = _after(group, node, worth), _before(parents.get(node), worth)
        paid[node] = {a: earned[a] + after[a] - before.get(a, 0.0) for a in earned}
    absorbed = {
        turn: tuple(dict.fromkeys(earned, 0.0) for earned in found)
        for turn, found in group.absorbed.items()
    }
    return replace(group, rewards=paid, returns=paid, absorbed=absorbed)


def _values(group: Group) -> dict[Node, Worth]:
    """By the joint action that a state comes after."""
    found: dict[Node, list[Worth]] = {}
    for further in group.further:
        returns = {agent: further.earned(agent, group.discount) for agent in group.agents}
        found.setdefault(further.of, []).append(returns)
    return {node: _mean(values) for node, values in found.items()}


def _after(group: Group, node: Node, worth: Mapping[Node, Worth]) -> Worth:
    """gamma V of the state that a joint action leads to."""
    if node in worth:
        return {agent: group.discount * value for agent, value in worth[node].items()}
    return {a: value - group.rewards[node][a] for a, value in group.returns[node].items()}


def _before(parent: Node | None, worth: Mapping[Node, Worth]) -> Worth:
    """V of the state that a joint action was taken in."""
    if parent is None:
        return {}
    if parent in worth:
        return worth[parent]
    others = [value for node, value in worth.items() if node[1] == parent[1]]
    return _mean(others) if others else {}


def _mean(values: list[Worth]) -> Worth:
    return {agent: mean([value[agent] for value in values]) for agent in values[0]}


Source = Literal["artefact", "continuations"]
"""Where a potential comes from."""

Potential = Mapping[str, float]
"""Phi of the history after a joint action, by agent."""


class Shaped:
    """A_t = that of another rule, of the rewards r_t + gamma Phi(h_t+1) - Phi(h_t).

    Potential-based shaping (Ng, Harada and Russell 1999). Phi is 0 before the first turn and after
    the last one, so an agent that revises is paid for what it makes better, not for what it was
    handed, and the gradient and the optimum stay as they are. It makes a difference from the second
    turn on; right for every protocol. Phi(h_t) is one of two:

    `artefact`, the judge's: what the joint artefact of the turn before would earn in the turns that
    are left, were it kept as it is. It costs nothing. Phi may be wrong about what is still to come,
    so the shaped rewards of later turns count too: they add up to R_t - Phi(h_t).

    `continuations`, Monte-Carlo's: the mean return of k further episodes that go on from h_t, as
    in VinePPO (arXiv 2410.01679). It has no bias, so a turn is paid its own shaped reward alone,
    which has the mean of R_t - Phi(h_t) and less noise. It costs playing the rest of each of G
    episodes k times from each of its states: at most k G (H - 1) episodes a task. For chains.

    Args:
        rule: the algorithm that is given the shaped rewards, and needs nothing beside them.
        options: that algorithm's own.
        potential: where Phi comes from.
        weight: the artefact's Phi is multiplied by it.
        continuations: k.
    """

    def __init__(
        self,
        *,
        rule: str = "marloo",
        options: dict[str, Any] | None = None,
        potential: Source = "artefact",
        weight: float = 1.0,
        continuations: int = 4,
    ) -> None:
        if potential not in ("artefact", "continuations"):
            raise RecipeError(
                f"algorithm 'shaped': potential '{potential}' must be 'artefact' or 'continuations'"
            )
        if potential == "continuations" and (weight != 1 or continuations < 1):
            raise RecipeError(
                f"algorithm 'shaped' with potential 'continuations' plays on {continuations} times"
                f" with weight {weight:g}; set continuations to 1 or more, and leave weight at 1,"
                " as with another one the gradient would be biased"
            )
        self._rule = make_algorithm(Component(use=rule, options=options or {}), RULES)
        if not goes_by_rewards(self._rule):
            raise RecipeError(
                f"algorithm 'shaped' cannot shape '{rule}', whose weights are made of more than the"
                " rewards that were played; set its option rule to e.g. 'marloo', 'rae' or 'maac'"
            )
        self._name, self._weight = rule, weight
        self._continuations = continuations if potential == "continuations" else 0

    @property
    def compares(self) -> bool:
        """As `PerGroup.compares`, of the rule."""
        return bool(getattr(self._rule, "compares", False))

    @property
    def pays_as_played(self) -> bool:
        """As the function of that name, of the rule."""
        return pays_as_played(self._rule)

    async def open(self, models: TeamModels) -> None:
        """As `UsesModels.open`."""
        if isinstance(self._rule, UsesModels):
            await self._rule.open(models)

    def further(self, recipe: Recipe) -> Further:  # noqa: ARG002
        """The continuations that Phi is the mean return of."""
        return Further(continuations=self._continuations)

    async def credit(self, groups: Sequence[Group]) -> Sequence[Weights]:
        """As `Algorithm.credit`."""
        return await self._rule.credit([self._shaped(group) for group in groups])

    def measures(self) -> Mapping[str, float]:
        """As `Measures.measures`."""
        return self._rule.measures() if isinstance(self._rule, Measures) else {}

    def spreads(self) -> Sequence[Mapping[Key, float]]:
        """As `Spreads.spreads`."""
        return self._rule.spreads() if isinstance(self._rule, Spreads) else ()

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError where the rule or the shaping would be wrong."""
        if isinstance(self._rule, ChecksRecipe):
            self._rule.check(recipe, spec)
        if self._continuations and spec.turn_structure != "chains":
            raise RecipeError(
                "algorithm 'shaped' plays on from the states of chains, and turn_structure is"
                f" '{spec.turn_structure}'; set turn_structure to 'chains', or its option potential"
                " to 'artefact'"
            )
        if spec.turn_structure == "greedy":
            raise RecipeError(
                "algorithm 'shaped' does nothing in turn_structure 'greedy', where answers to one"
                " state are compared by the reward of their turn alone; set turn_structure to"
                f" 'chains' or 'tree', or algorithm to '{self._name}'"
            )
        if recipe.team.when_solved == "stop" and not self._continuations:
            raise RecipeError(
                "algorithm 'shaped' pays for what an artefact will earn in the turns that are left,"
                " and with team.when_solved 'stop' one that solves the task earns nothing more; set"
                f" team.when_solved to 'absorb', or algorithm to '{self._name}'"
            )
        if spec.joint_mode != "aligned":
            raise RecipeError(
                f"algorithm 'shaped' shapes what was played, and joint_mode '{spec.joint_mode}'"
                " compares what was not; set joint_mode to 'aligned'"
            )

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:
        """What is shaped, and what the rule has to say."""
        own = self._rule.describe(recipe, spec) if isinstance(self._rule, Describes) else ()
        turns = "; of one turn nothing is" if recipe.team.turns == 1 else ""
        lines = [f"credit: '{self._name}' of shaped rewards, from turn 2 on{turns}"]
        if further := self._continuations * spec.group_size * (recipe.team.turns - 1):
            lines.append(f"continuations: at most {further:,} further episodes a task")
        return [*lines, *own]

    def _shaped(self, group: Group) -> Group:
        return valued(group) if self._continuations else shaped(group, self._weight)

    def state(self) -> Mapping[str, Any]:
        """The rule's."""
        return self._rule.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._rule.restore(state)


def shaped(group: Group, weight: float = 1.0) -> Group:
    """The group with shaped rewards; returns lose the potential of the history before them."""
    after = {node: _potential(group, node, weight) for node in group.rewards}
    before = {child: after[node] for node, found in group.children.items() for child in found}
    rewards, returns = {}, {}
    for node, earned in group.rewards.items():
        phi = before.get(node, {})
        rewards[node] = {
            agent: value + group.discount * after[node][agent] - phi.get(agent, 0.0)
            for agent, value in earned.items()
        }
        returns[node] = {a: value - phi.get(a, 0.0) for a, value in group.returns[node].items()}
    absorbed = {
        turn: tuple({a: (1 - weight) * value for a, value in earned.items()} for earned in found)
        for turn, found in group.absorbed.items()
    }
    return replace(group, rewards=rewards, returns=returns, absorbed=absorbed, ask=_refuse)


def _potential(group: Group, node: Node, weight: float) -> Potential:
    """What the joint artefact would earn in the turns that are left."""
    episode = group.episodes[node[0]]
    left = (episode.horizon or len(episode.turns)) - 1 - node[1]
    turns = fsum(group.discount**k for k in range(left))
    return {agent: weight * turns * value for agent, value in group.rewards[node].items()}


async def _refuse(
    _nodes: Sequence[Node], _choices: Sequence[Choice]
) -> list[Mapping[str, float] | None]:
    raise TrainingError(
        "algorithm 'shaped' shapes the rewards of what was played, and its rule asks for those of"
        " other joint actions; set its option rule to one that does not, e.g. 'marloo'"
    )
