"""Runs of one recipe that differ in nothing but their seed belong together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from collab.report.runs import Run

APART = ("seed", "name", "description")
"""Keys of a recipe in which the runs of a cohort may differ."""

WORDS = ("name", "description")
"""Last words of keys that only say what others do."""

LABEL_DIFFERENCES = 3


@dataclass(frozen=True)
class Cohort:
    label: str
    runs: list[Run]

    @property
    def what(self) -> str:
        """The label without how many seeds there are."""
        return self.label.removesuffix(_seeds(self.runs))


def cohorts_of(runs: Sequence[Run]) -> list[Cohort]:
    """The runs by recipe, each labelled by what tells it from the others."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_fingerprint(run), []).append(run)
    found = list(groups.values())
    labels = _labels(found)
    return [Cohort(label, group) for label, group in zip(labels, found, strict=True)]


def _fingerprint(run: Run) -> str:
    if not run.recipe:
        return str(run.path.resolve())
    return json.dumps(_compared(run), sort_keys=True, default=str)


def _compared(run: Run) -> dict[str, Any]:
    return {key: value for key, value in run.recipe.items() if key not in APART}


def _labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    if len(groups) == 1 and len(groups[0]) > 1:
        return [_base(groups[0][0]) + _seeds(groups[0])]
    differing = _differences([dict(_flat(_compared(group[0]))) for group in groups])
    labels = []
    for group, values in zip(groups, differing, strict=True):
        few = 0 < len(values) <= LABEL_DIFFERENCES
        label = ", ".join(f"{key} {value}" for key, value in values.items()) if few else ""
        label = label or (group[0].name if len(group) == 1 else _base(group[0]))
        labels.append(label + _seeds(group))
    if len(set(labels)) == len(labels):
        return labels
    return [" + ".join(run.name for run in group) for group in groups]


def _seeds(runs: Sequence[Run]) -> str:
    return f", {len(runs)} seeds" if len(runs) > 1 else ""


def _base(run: Run) -> str:
    return str(run.recipe.get("name") or run.about.get("team") or run.name)


def _flat(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _flat(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, str(data)


def _differences(recipes: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """For each recipe, its values of the keys in which not all agree, by the keys' last words."""
    keys = dict.fromkeys(key for recipe in recipes for key in recipe)
    differing = [key for key in keys if len({recipe.get(key) for recipe in recipes}) > 1]
    differing = [key for key in differing if key.rpartition(".")[2] not in WORDS] or differing
    return [
        {key.rpartition(".")[2]: recipe.get(key, "none") for key in differing} for recipe in recipes
    ]
