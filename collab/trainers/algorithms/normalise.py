"""Division of advantages by a standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

from collab.recipe.trainer import Normalise
from collab.trainers.algorithms.group import Group, Weights

NO_SPREAD = 1e-9
"""A deviation up to this is rounding; such advantages are left as they are."""


def normalise(groups: Sequence[Group], weights: Sequence[Weights], how: Normalise) -> list[Weights]:
    """The weights of a step's groups, divided by their population standard deviation.

    `group`: that of each agent within each set of peers, as in GRPO (arXiv 2402.03300). `agent`:
    that of each agent over the whole step, as in Dr. MAS (arXiv 2602.08847), so that agents
    whose advantages differ in size get gradients of like size.
    """
    if how == "none":
        return list(weights)
    changed = [dict(found) for found in weights]
    for group in groups[:1]:
        for agent in group.agents if how == "agent" else ():
            keys = [(n, k) for n, found in enumerate(weights) for k in found if k[2] == agent]
            scale = _scale([weights[n][key] for n, key in keys])
            for n, key in keys:
                changed[n][key] /= scale
    if how == "group":
        for number, group in enumerate(groups):
            _within_peers(group, changed[number])
    return list(changed)


def _within_peers(group: Group, weights: dict[tuple[int, int, str], float]) -> None:
    for places in group.peers:
        for agent in group.agents:
            keys = [(episode, turn, agent) for episode, turn in places]
            scale = _scale([weights[key] for key in keys])
            for key in keys:
                weights[key] /= scale


def _scale(values: Sequence[float]) -> float:
    mean = fsum(values) / len(values)
    deviation = sqrt(fsum((value - mean) ** 2 for value in values) / len(values))
    return deviation if deviation > NO_SPREAD else 1.0
