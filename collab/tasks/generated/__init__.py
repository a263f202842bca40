"""Problems that are generated from a seed. Each generator is a file here.

A generator is a function of a `random.Random` and of options of its own; it gives the rows of a
suite one after the other, all different, and all that there are or without end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from random import Random
from typing import Any

from collab.errors import TaskError
from collab.plugins import bind, call
from collab.recipe import SourceSpec
from collab.tasks.generated.duet import duet
from collab.tasks.generated.pocket_code import pocket_code
from collab.tasks.generated.same_name import same_name
from collab.tasks.generated.seeds import seeds
from collab.tasks.generated.signals import signals
from collab.tasks.generated.split_sum import split_sum

BUILT_IN: Mapping[str, Callable[..., Any]] = {
    "duet": duet,
    "pocket_code": pocket_code,
    "same_name": same_name,
    "seeds": seeds,
    "signals": signals,
    "split_sum": split_sum,
}


def generated_rows(source: SourceSpec) -> list[Any]:
    """The first rows that the source's generator gives.

    Raises:
        RecipeError: there is no such generator, or it does not take these options.
        TaskError: it raises, or gives too few rows.
    """
    assert source.generate is not None, "the source names a generator"
    what = f"generator '{source.generate.use}'"
    generator = bind("generator", source.generate.use, source.generate.options, BUILT_IN, "random")

    def first(random: Random) -> list[Any]:
        return list(islice(generator(random), source.rows))

    rows: list[Any] = call(what, TaskError, first, Random(source.seed))
    if len(rows) < source.rows:
        raise TaskError(
            f"{what} gives {len(rows)} rows, and {source.rows} were asked for; set task.source.rows"
            f" to {len(rows)} or less, or options that leave more to choose from"
        )
    return rows
