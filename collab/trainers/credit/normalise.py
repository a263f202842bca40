"""Division of advantages by a standard deviation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from collab.errors import TrainingError
from collab.recipe.trainer import Normalise
from collab.stats import deviation
from collab.trainers.credit.group import Group, Weights

Key = tuple[int, tuple[int, int, str]]
"""A group of the step, and the episode, turn and agent of one of its weights."""

NO_SPREAD = 1e-9
"""A deviation up to this is rounding; such advantages are left as they are."""


def normalise(groups: Sequence[Group], weights: Sequence[Weights], how: Normalise) -> list[Weights]:
    """The weights of a step's groups, divided by their population standard deviation.

    `group`: that of each agent within each set of peers, as in GRPO (arXiv 2402.03300). `agent`:
    that of each agent within each task, over all turns, as in Dr. MAS (arXiv 2602.08847), so that
    agents whose rewards differ in size get gradients of like size. `step`: that of each agent
    over all tasks of the step, which leaves hard and easy tasks their difference.
    """
    if how == "none":
        return list(weights)
    changed = [_numbers(found, how) for found in weights]
    for keys, divisor in _PARTS[how](groups, changed):
        for number, key in keys:
            changed[number][key] /= divisor
    return list(changed)


def _numbers(weights: Weights, how: Normalise) -> Numbers:
    numbers: Numbers = {}
    for key, weight in weights.items():
        if isinstance(weight, Sequence):
            raise TrainingError(
                f"trainer.normalise '{how}' divides one number a response, and the algorithm gives"
                f" one a token (agent '{key[2]}'); set trainer.normalise to 'none'"
            )
        numbers[key] = weight
    return numbers


Numbers = dict[tuple[int, int, str], float]
"""One weight for each response."""

Parts = Iterator[tuple[list[Key], float]]
"""Weights that are divided by one deviation, and this deviation."""


def _of_peers(groups: Sequence[Group], weights: Sequence[Numbers]) -> Parts:
    for number, group in enumerate(groups):
        for places, agent in product(group.peers, group.agents):
            keys = [(number, (episode, turn, agent)) for episode, turn in places]
            values = [weights[n][k] for n, k in keys]
            if len(places) == 1:
                values = group.compared(places, agent)
            yield keys, _divisor(values)


def _of_tasks(groups: Sequence[Group], weights: Sequence[Numbers]) -> Parts:
    for number, group in enumerate(groups):
        for agent in group.agents:
            keys = [(number, key) for key in weights[number] if key[2] == agent]
            yield keys, _divisor([weights[n][k] for n, k in keys])


def _of_step(groups: Sequence[Group], weights: Sequence[Numbers]) -> Parts:
    for agent in {agent: None for group in groups for agent in group.agents}:
        keys = [(n, key) for n, found in enumerate(weights) for key in found if key[2] == agent]
        yield keys, _divisor([weights[n][k] for n, k in keys])


def _divisor(values: Sequence[float]) -> float:
    spread = deviation(values)
    return spread if spread > NO_SPREAD else 1.0


_PARTS: dict[Normalise, Callable[[Sequence[Group], Sequence[Numbers]], Parts]] = {
    "group": _of_peers,
    "agent": _of_tasks,
    "step": _of_step,
}
