"""Keyword arguments that are settings: keys of the recipe, or of one of its sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from collab.errors import RecipeError, UnknownName
from collab.recipe.base import Spec, path_of
from collab.recipe.in_python.objects import Objects
from collab.recipe.recipe import SECTIONS, Recipe

PLAYED = {name: section for name, section in SECTIONS.items() if name != "trainer"}
"""The sections that say how a team plays."""

_BY_OTHERS = {
    "beta": "kl_coef",
    "epsilon": "clip_ratio",
    "eval_interval": "evaluation",
    "eval_num_samples": "evaluation",
    "eval_steps": "evaluation",
    "gradient_accumulation_steps": "tasks_per_step",
    "max_completion_length": "max_new_tokens",
    "max_steps": "steps",
    "num_generations": "group_size",
    "num_iterations": "inner_epochs",
    "num_train_epochs": "epochs",
    "num_turns": "turns",
    "output_dir": "out",
    "per_device_train_batch_size": "tasks_per_step",
    "rollout_buffer_size": "tasks_per_step",
    "train_batch_size": "tasks_per_step",
    "train_dataset": "task",
}
"""What other libraries of training call a key, or an argument, that is here."""


def settings_of(
    given: Mapping[str, Any], sections: Mapping[str, type[Spec]], *, top: set[str]
) -> tuple[dict[str, Any], list[str]]:
    """The keys of the recipe itself, `top`, and those of its sections as on the command line.

    Raises:
        RecipeError: a key that none of them has; with the one that is meant where that is known.
    """
    objects, found = Objects(), []
    for key, value in given.items():
        if key in top:
            continue
        path = path_of(key, dict(sections))
        if path is None:
            raise _unknown(key, sections, top)
        text = yaml.safe_dump(objects.data(value, key), default_flow_style=True, width=10**9)
        found.append(f"{path}={text}")
    return {key: value for key, value in given.items() if key in top}, found


def keys_of_the_top(*arguments: str) -> set[str]:
    """The recipe's own keys, less those that are arguments by themselves."""
    return {*Recipe.model_fields} - set(arguments)


def _unknown(key: str, sections: Mapping[str, type[Spec]], top: set[str]) -> RecipeError:
    if key in _BY_OTHERS:
        return RecipeError(f"unknown setting '{key}'; it is '{_BY_OTHERS[key]}' here")
    known = {name for section in sections.values() for name in section.model_fields}
    return UnknownName("setting", key, known | top)
