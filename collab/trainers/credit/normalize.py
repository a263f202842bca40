"""Division of advantages by a standard deviation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from collab.errors import TrainingError
from collab.recipe.trainer import Normalize
from collab.stats import deviation, group_by
from collab.trainers.credit.group import Group, ResponseKey, Weights

ResponseWeights = dict[ResponseKey, float]
"""Weights with one number per response."""

Divisions = Iterator[tuple[list[tuple[int, ResponseKey]], float]]
"""Weights, by the position of their group in the step and their key, and their divisor."""

NEGLIGIBLE_SPREAD = 1e-9
"""Largest standard deviation that counts as rounding error. Advantages are not divided by it."""


def normalize(
    groups: Sequence[Group],
    weights: Sequence[Weights],
    mode: Normalize,
    spreads: Sequence[Mapping[ResponseKey, float]] = (),
) -> list[Weights]:
    """Return the weights of a step's groups, divided by a population standard deviation.

    With `group`, the deviation is per agent within each set of compared joint actions, as in GRPO
    (arXiv 2402.03300); `spreads` are an algorithm's own deviations by group, and replace it. With
    `agent`, it is per agent within each task, over all turns, as in Dr. MAS (arXiv 2602.08847), so
    agents whose rewards differ in size get gradients of similar size. With `step`, it is per agent
    over all tasks of the step, which keeps the differences between hard and easy tasks.
    """
    if mode == "none":
        return list(weights)
    divided = [_response_weights(group_weights, mode) for group_weights in weights]
    divisors = spreads if mode == "group" and spreads else [{}] * len(divided)
    if mode == "group":
        divisions = _baseline_divisions(groups, divided)
    else:
        divisions = _agent_divisions(divided, mode)
    for keys, divisor in divisions:
        for number, key in keys:
            divided[number][key] /= (
                _divisor(divisors[number][key]) if key in divisors[number] else divisor
            )
    return list(divided)


def _response_weights(weights: Weights, mode: Normalize) -> ResponseWeights:
    numbers: ResponseWeights = {}
    for key, weight in weights.items():
        if isinstance(weight, Sequence):
            raise TrainingError(
                f"trainer.normalize '{mode}' needs one weight per response, but the algorithm"
                f" returns one per token (agent '{key[2]}'); set trainer.normalize to 'none'"
            )
        numbers[key] = weight
    return numbers


def _baseline_divisions(groups: Sequence[Group], weights: Sequence[ResponseWeights]) -> Divisions:
    for number, group in enumerate(groups):
        for nodes, agent in product(group.baselines_over, group.agents):
            node_keys = ((episode, turn, agent) for episode, turn in nodes)
            keys = [(number, key) for key in node_keys if key in weights[number]]
            values = [weights[n][k] for n, k in keys]
            if len(nodes) == 1:
                values = group.compared(nodes, agent)
            yield keys, _divisor(deviation(values))


def _agent_divisions(weights: Sequence[ResponseWeights], mode: Normalize) -> Divisions:
    """Yield the weights of each agent, within each task or over all tasks of the step."""
    every = [(number, key) for number, numbers in enumerate(weights) for key in numbers]
    by_agent = group_by(every, lambda each: (each[1][2], each[0] if mode == "agent" else 0))
    for keys in by_agent.values():
        yield keys, _divisor(deviation([weights[n][k] for n, k in keys]))


def _divisor(spread: float) -> float:
    return spread if spread > NEGLIGIBLE_SPREAD else 1.0
