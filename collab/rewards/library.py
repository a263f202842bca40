"""The rewards that come with collab: their parts by name, their measures and display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from collab.lazy import BuiltIn
from collab.plugins import find
from collab.recipe.reward import PartSpec
from collab.rewards.code import ALARMS, MEASURES, PARTS, language_of, title_of
from collab.rewards.code.trial import examine, trial_of
from collab.rewards.parts import PartFunction, bind_part

_BY_MODULE = {
    "generic": ("length", "contains", "equals", "one_of", "utility", "agree"),
    "answers.exact": ("exact_answer",),
    "answers.published": ("score_answer", "environment_score"),
    "writing.pairs": (
        "lengths", "length_ratio", "vocabulary", "transitions", "shared_words", "faithfulness"
    ),
    "writing.sentences": ("names", "sentences", "mentions", "in_common"),
}  # fmt: skip
"""Parts by module. Each part's function has the name of the part."""

BUILT_IN: Mapping[str, Callable[..., Any]] = BuiltIn(
    "collab.rewards",
    {
        **PARTS,
        **{name: f"{module}:{name}" for module, names in _BY_MODULE.items() for name in names},
    },
)

__all__ = [
    "ALARMS",
    "BUILT_IN",
    "MEASURES",
    "examine",
    "language_of",
    "open_part",
    "title_of",
    "trial_of",
]


def open_part(name: str, spec: PartSpec) -> PartFunction:
    """Return the function of a part, with its options.

    Raises:
        RecipeError: there is no such function, or it does not take an option.
    """
    function = find("reward", spec.use, BUILT_IN)
    return bind_part(name, spec.use, function, spec.options, built_in=spec.use in BUILT_IN)
