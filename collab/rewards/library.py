"""The families of rewards that come with collab, with their parts by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collab.plugins import find
from collab.recipe.reward import PartSpec
from collab.rewards import answers, code, generic, writing
from collab.rewards.family import Family, Measure
from collab.rewards.parts import PartFunction, bind_part

FAMILIES: tuple[Family, ...] = (
    code.FAMILY,
    Family(
        {
            "length": generic.length,
            "contains": generic.contains,
            "equals": generic.equals,
            "one_of": generic.one_of,
        }
    ),
    answers.FAMILY,
    Family({"utility": generic.utility, "agree": generic.agree}),
    writing.FAMILY,
)

BUILT_IN: dict[str, Callable[..., Any]] = {
    name: function for family in FAMILIES for name, function in family.parts.items()
}

MEASURES: tuple[Measure, ...] = tuple(measure for family in FAMILIES for measure in family.measures)


def open_part(name: str, spec: PartSpec) -> PartFunction:
    """Return the function of a part, with its options.

    Raises:
        RecipeError: there is no such function, or it does not take an option.
    """
    function = find("reward", spec.use, BUILT_IN)
    return bind_part(name, spec.use, function, spec.options, built_in=spec.use in BUILT_IN)
