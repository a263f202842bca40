"""The rewards that come with collab: their parts by name, their measures and display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from collab.plugins import find
from collab.recipe.reward import PartSpec
from collab.rewards import code, generic
from collab.rewards.answers import exact, published
from collab.rewards.code import ALARMS, MEASURES, language_of, title_of
from collab.rewards.code.trial import examine, trial_of
from collab.rewards.parts import PartFunction, bind_part
from collab.rewards.writing import pairs, sentences

_NAMED = (
    generic.length, generic.contains, generic.equals, generic.one_of, generic.utility,
    generic.agree, exact.exact_answer, published.score_answer, published.environment_score,
    pairs.lengths, pairs.length_ratio, pairs.vocabulary, pairs.transitions, pairs.shared_words,
    pairs.faithfulness, sentences.names, sentences.sentences, sentences.mentions,
    sentences.in_common,
)  # fmt: skip
"""Parts that a recipe uses by the function's own name."""

BUILT_IN: Mapping[str, Callable[..., Any]] = {
    **code.PARTS,
    **{function.__name__: function for function in _NAMED},
}

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
