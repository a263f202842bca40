"""Which tasks a probe plays: some of those that would be trained on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from collab.recipe import Recipe

T = TypeVar("T")

TRAIN = "train"


def training_addresses(recipe: Recipe, addresses: Sequence[str]) -> list[str]:
    """The addresses given; a whole suite stands for those of its tasks that are trained on."""
    task, trainer = recipe.task, recipe.trainer
    whole = not addresses or (task is not None and list(addresses) == [task.name])
    if task is None or not whole:
        return list(addresses)
    selection = trainer.tasks if trainer is not None else None
    if selection is None and TRAIN in task.splits:
        selection = TRAIN
    return [f"{task.name}/{selection}"] if selection else list(addresses)


def draw(problems: Sequence[T], most: int, seed: int) -> list[T]:
    """At most so many, drawn by the seed, in their order."""
    if len(problems) <= most:
        return list(problems)
    chosen = random.Random(f"{seed}|probe").sample(range(len(problems)), most)
    return [problems[number] for number in sorted(chosen)]
