"""Problems generated from a seed. Each generator is a file here, with a function of its name.

A generator is a function of a `random.Random` and its options. It yields different rows for a
suite, one after the other, until none is left, or forever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from random import Random
from typing import Any

from collab.errors import TaskError
from collab.lazy import BuiltIn
from collab.plugins import bind_options, call_function
from collab.recipe import SourceSpec
from collab.recipe.base import Component

_NAMES = (
    "duet",
    "pocket_code",
    "reasoning_gym",
    "same_name",
    "seeds",
    "signals",
    "split_sum",
    "verifiers",
)
BUILT_IN = BuiltIn(
    "collab.tasks.generated",
    {name: f"{name}:{name}" for name in _NAMES} | {"two_files": "pocket_code:two_files"},
)


def generated_rows(source: SourceSpec) -> list[Any]:
    """Return the first rows of the source's generator, level by level.

    Raises:
        RecipeError: there is no such generator, or it does not take these options.
        TaskError: the generator raises, or yields too few rows.
    """
    assert source.generate is not None, "the source has a generator"
    if source.levels:
        return _rows_of_levels(source, source.generate)
    return _first_rows(source, source.generate)


def _first_rows(source: SourceSpec, component: Component, levels: int = 1) -> list[Any]:
    """Return the rows of one level, one of `levels` levels that share the suite."""
    what = f"generator '{component.use}'"
    generator = bind_options("generator", component.use, component.options, BUILT_IN, "random")

    def take_rows(random: Random) -> list[Any]:
        rows = generator(random)
        if isinstance(rows, Mapping | str) or not isinstance(rows, Iterable):
            raise TaskError(
                f"{what} returned a {type(rows).__name__}; a generator yields a mapping of fields"
                " for each problem"
            )
        return list(islice(rows, source.rows))

    rows: list[Any] = call_function(what, TaskError, take_rows, Random(source.seed))
    if len(rows) < source.rows:
        fewer = f"set task.source.rows to {len(rows) * levels} or less, or " if rows else ""
        raise TaskError(
            f"{what} returned {len(rows)} rows, but {source.rows} are needed; {fewer}choose options"
            " that allow more rows"
        )
    return rows


def _rows_of_levels(source: SourceSpec, generator: Component) -> list[Any]:
    """Return the rows of several levels, in nearly equal numbers. Each row has its level."""
    rows: list[Any] = []
    for number, level in enumerate(source.levels):
        upto = source.rows * (number + 1) // len(source.levels)
        component = generator.model_copy(update={"options": {**generator.options, "level": level}})
        part = source.model_copy(update={"rows": upto - len(rows)})
        for row in _first_rows(part, component, len(source.levels)):
            rows.append(_add_level(row, len(rows), level) if isinstance(row, dict) else row)
    return rows


def _add_level(row: dict[str, Any], number: int, level: int) -> dict[str, Any]:
    """Return a row with its level, named by its position among all levels if it has a name."""
    if "task_id" in row:
        stem, slash, _ = str(row["task_id"]).rpartition("/")
        row = {**row, "task_id": f"{stem}{slash}{number}"}
    return {**row, "level": level}
