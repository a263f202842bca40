"""C3: each answer of a sequential team against others to the same answers before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.runtime.rehearsal import rehearsed
from collab.stats import mean
from collab.trainers.credit.acting_order import acting_order
from collab.trainers.credit.group import Group, Key, Weights
from collab.trainers.credit.shape import Shape

Branch = tuple[int, ...]
"""An answer, by the numbers of the answers on the way to it, its own last."""


class C3:
    """A_i^(k) = Q^(k) - mean over k' != k of Q^(k'), among the K answers to one frozen context.

    arXiv 2603.06859: Q is the mean return of the episodes that go on from an answer. The first
    agent answers K_1 times, the next one K_2 times to each of these, and so on: `fan_out` holds
    K_1, K_2, .. and their product is G. It is right for one turn whose agents act one after the
    other, and unbiased there; on a parallel team use `cross`. It saves generating: [4, 2] takes 4
    answers of the first agent and 8 of the second one for 8 episodes. Precision moves from the
    first agent, of whom there are fewer answers, to the last.

    Args:
        fan_out: by agent, in the order in which they act.
    """

    pays_as_played = False

    def __init__(self, *, fan_out: list[int]) -> None:
        if not fan_out or min(fan_out) < 1:
            raise RecipeError(
                f"algorithm 'c3': fan_out {fan_out} must name for each agent how often it answers,"
                " e.g. [4, 2]"
            )
        self.fan_out = tuple(fan_out)

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        """As `Algorithm.credit`."""
        return [self._credit(group) for group in groups]

    def state(self) -> Mapping[str, Any]:
        """Nothing is kept."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing was kept."""

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError where answers are not given one after the other, or not compared."""
        order = acting_order("c3", recipe, spec)
        if len(self.fan_out) != len(order) or prod(self.fan_out) != spec.group_size:
            raise RecipeError(
                f"fan_out {list(self.fan_out)} of algorithm 'c3' must hold a number for each of"
                f" {', '.join(order)}, whose product is group_size, {spec.group_size}"
            )
        for agent, size in zip(order, self.fan_out, strict=True):
            if size == 1 and recipe.team.agents[agent].trainable:
                raise RecipeError(
                    f"fan_out {list(self.fan_out)} of algorithm 'c3' has agent '{agent}' answer"
                    " once, which leaves nothing to compare its answer with; give it 2 or more, or"
                    f" set agents.{agent}.trainable=false"
                )
        odd = {"turn_structure": "chains", "joint_mode": "aligned", "normalise": "none"}
        for key, value in odd.items():
            if getattr(spec, key) != value:
                raise RecipeError(
                    f"algorithm 'c3' has a tree of its own, whose agents have unequal numbers of"
                    f" answers, and {key} is '{getattr(spec, key)}'; set {key} to '{value}'"
                )

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:  # noqa: ARG002
        """How many answers of each agent are drawn for a task."""
        order = [agent for round_ in rehearsed(recipe).rounds for agent in round_.agents]
        drawn = [prod(self.fan_out[: n + 1]) for n in range(len(order))]
        told = ", ".join(f"{n} of {agent}" for n, agent in zip(drawn, order, strict=True))
        return [f"credit: answers to the same answers are compared; a task has {told}"]

    def _credit(self, group: Group) -> Weights:
        shape = Shape("chains", prod(self.fan_out), 1, self.fan_out)
        paths = [shape.branches(episode.sample) for episode in group.episodes]
        decisions = group.episodes[0].turns[0].decisions
        order = list(dict.fromkeys(decision.agent for decision in decisions))
        weights: dict[Key, float] = {}
        for place, agent in enumerate(order):
            if agent not in group.agents:
                continue
            found: dict[Branch, list[float]] = {}
            for number, path in enumerate(paths):
                earned = group.returns[number, 0][agent]
                found.setdefault(path[: place + 1], []).append(earned)
            values = {branch: mean(earned) for branch, earned in found.items()}
            for number, path in enumerate(paths):
                drew = not any(path[place + 1 :])
                advantage = _advantage(values, path[: place + 1]) if drew else 0.0
                # visit_share is an episode's; of this agent's answers there are fewer
                weights[number, 0, agent] = advantage * len(paths) / len(values)
        return weights


def _advantage(values: Mapping[Branch, float], own: Branch) -> float:
    others = [value for b, value in values.items() if b[:-1] == own[:-1] and b != own]
    return values[own] - mean(others) if others else 0.0
