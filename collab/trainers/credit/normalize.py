"""Division of advantages by a standard deviation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from collab.errors import TrainingError
from collab.recipe.trainer import Normalize
from collab.stats import deviation
from collab.trainers.credit.group import Group, Key, Weights

Numbers = dict[Key, float]
"""Weights with one number per response."""

Divisions = Iterator[tuple[list[tuple[int, Key]], float]]
"""Weights, by the position of their group in the step and their key, and their divisor."""

NO_SPREAD = 1e-9
"""Largest standard deviation that counts as rounding error. Advantages are not divided by it."""


def normalize(
    groups: Sequence[Group],
    weights: Sequence[Weights],
    how: Normalize,
    spreads: Sequence[Mapping[Key, float]] = (),
) -> list[Weights]:
    """Return the weights of a step's groups, divided by a population standard deviation.

    With `group`, the deviation is per agent within each set of compared joint actions, as in GRPO
    (arXiv 2402.03300); `spreads` are an algorithm's own deviations by group, and replace it. With
    `agent`, it is per agent within each task, over all turns, as in Dr. MAS (arXiv 2602.08847), so
    agents whose rewards differ in size get gradients of similar size. With `step`, it is per agent
    over all tasks of the step, which keeps the differences between hard and easy tasks.
    """
    if how == "none":
        return list(weights)
    changed = [_numbers(group_weights, how) for group_weights in weights]
    divisors = spreads if how == "group" and spreads else [{}] * len(changed)
    divisions = _of_baselines(groups, changed) if how == "group" else _of_agents(changed, how)
    for keys, divisor in divisions:
        for number, key in keys:
            changed[number][key] /= (
                _at_least(divisors[number][key]) if key in divisors[number] else divisor
            )
    return list(changed)


def _numbers(weights: Weights, how: Normalize) -> Numbers:
    numbers: Numbers = {}
    for key, weight in weights.items():
        if isinstance(weight, Sequence):
            raise TrainingError(
                f"trainer.normalize '{how}' needs one weight per response, but the algorithm"
                f" returns one per token (agent '{key[2]}'); set trainer.normalize to 'none'"
            )
        numbers[key] = weight
    return numbers


def _of_baselines(groups: Sequence[Group], weights: Sequence[Numbers]) -> Divisions:
    for number, group in enumerate(groups):
        for nodes, agent in product(group.baselines_over, group.agents):
            every = ((episode, turn, agent) for episode, turn in nodes)
            keys = [(number, key) for key in every if key in weights[number]]
            values = [weights[n][k] for n, k in keys]
            if len(nodes) == 1:
                values = group.compared(nodes, agent)
            yield keys, _at_least(deviation(values))


def _of_agents(weights: Sequence[Numbers], how: Normalize) -> Divisions:
    """Yield the weights of each agent, within each task or over all tasks of the step."""
    alike: dict[tuple[str, int], list[tuple[int, Key]]] = {}
    for number, of_task in enumerate(weights):
        for key in of_task:
            task = number if how == "agent" else 0
            alike.setdefault((key[2], task), []).append((number, key))
    for keys in alike.values():
        yield keys, _at_least(deviation([weights[n][k] for n, k in keys]))


def _at_least(spread: float) -> float:
    return spread if spread > NO_SPREAD else 1.0
