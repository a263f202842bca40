"""Groups runs of one recipe that differ only in their seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collab.report.runs import Run, value_at
from collab.trainers.training.folder import flat

APART = ("seed", "name", "description")
"""Keys of a recipe in which the runs of a cohort may differ."""

NAMED = ("team", "task", "trainer.algorithm")
"""Recipe parts that go into a run's label, most important first."""

HOUSEKEEPING = (
    "concurrency",
    "sandbox",
    "trainer.checkpoint_every",
    "trainer.keep_checkpoints",
    "trainer.report_samples",
    "trainer.report_to",
)
"""Keys that do not change the results of a run."""

LABEL_DIFFERENCES = 3
LABEL_LETTERS = 40
"""Longest value in a label; prompts are longer."""


@dataclass(frozen=True)
class Cohort:
    label: str
    runs: list[Run]

    @property
    def what(self) -> str:
        """The label without how many seeds there are."""
        return self.label.removesuffix(_seeds(self.runs))


def cohorts_of(runs: Sequence[Run]) -> list[Cohort]:
    """The runs grouped by recipe, labelled by the settings that differ."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_fingerprint(run), []).append(run)
    labels = _labels([*groups.values()])
    return [Cohort(label, group) for label, group in zip(labels, groups.values(), strict=True)]


def _fingerprint(run: Run) -> str:
    if not run.recipe:
        return str(run.path.resolve())
    return json.dumps(_compared(run), sort_keys=True, default=str)


def _compared(run: Run) -> dict[str, Any]:
    return {key: value for key, value in run.recipe.items() if key not in APART}


def _labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    if len(groups) == 1 and len(groups[0]) > 1:
        run = groups[0][0]
        name = run.recipe.get("name") or run.about.get("team") or run.name
        return [f"{name}{_seeds(groups[0])}"]
    labels = [_short(differing) for differing in _differences([group[0] for group in groups])]
    if "" in labels or len(set(labels)) < len(labels):
        labels = [" + ".join(run.name for run in group) for group in groups]
        return labels if len(set(labels)) == len(labels) else [str(g[0].path) for g in groups]
    return [label + _seeds(group) for label, group in zip(labels, groups, strict=True)]


def _short(differing: Mapping[str, str]) -> str:
    """The settings that differ, in a few words; empty if there are too many."""
    if len(differing) > LABEL_DIFFERENCES or any(
        len(v) > LABEL_LETTERS for v in differing.values()
    ):
        return ""
    return ", ".join(v if key in NAMED else f"{_word(key)} {v}" for key, v in differing.items())


def _word(key: str) -> str:
    """The last word of a setting's key that is not `name` or `use`."""
    *before, last = key.split(".")
    return before[-1] if before and last in ("name", "use") else last


def _seeds(runs: Sequence[Run]) -> str:
    return f", {len(runs)} seeds" if len(runs) > 1 else ""


def _differences(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Return the settings of each run that are not the same in all runs.

    A part that differs as a whole is represented by its name alone.
    """
    called = [{part: _called(run.recipe, part) for part in NAMED} for run in runs]
    others = [part for part in NAMED if len({names[part] for names in called}) > 1]
    recipes = [{k: str(v) for k, v in flat(_compared(run)).items()} for run in runs]
    keys = [
        key
        for key in dict.fromkeys(key for recipe in recipes for key in recipe)
        if len({recipe.get(key) for recipe in recipes}) > 1
        and not key.endswith("description")
        and not any(f"{key}.".startswith(f"{part}.") for part in (*others, *HOUSEKEEPING))
    ]
    return [
        {**{part: names[part] for part in others}, **{k: recipe.get(k, "none") for k in keys}}
        for names, recipe in zip(called, recipes, strict=True)
    ]


def _called(recipe: Mapping[str, Any], part: str) -> str:
    value = value_at(recipe, part)
    if isinstance(value, Mapping):
        value = value.get("name") or value.get("use")
    return str(value or "none")
