"""The families of rewards that come with collab, with their parts by name."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from collab.lazy import BuiltIn
from collab.plugins import find
from collab.recipe.reward import PartSpec
from collab.rewards import answers, code, writing
from collab.rewards.family import Family, Measure
from collab.rewards.parts import PartFunction, bind_part

_GENERIC = ("length", "contains", "equals", "one_of", "utility", "agree")

FAMILIES: tuple[Family, ...] = (
    code.FAMILY,
    Family(
        BuiltIn(
            "collab.rewards",
            {name: f"generic:{name}" for name in _GENERIC},
        )
    ),
    answers.FAMILY,
    writing.FAMILY,
)

BUILT_IN: Mapping[str, Callable[..., Any]] = ChainMap(
    *(family.parts for family in FAMILIES)  # type: ignore[arg-type]
)

MEASURES: tuple[Measure, ...] = tuple(measure for family in FAMILIES for measure in family.measures)


def open_part(name: str, spec: PartSpec) -> PartFunction:
    """Return the function of a part, with its options.

    Raises:
        RecipeError: there is no such function, or it does not take an option.
    """
    function = find("reward", spec.use, BUILT_IN)
    return bind_part(name, spec.use, function, spec.options, built_in=spec.use in BUILT_IN)
