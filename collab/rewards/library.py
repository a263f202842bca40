"""The rewards that come with collab: their parts by name, their measures and display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from collab.errors import RecipeError
from collab.lazy import BuiltIn
from collab.plugins import check_call, check_options, find_function, signature_of
from collab.recipe.reward import PartSpec
from collab.rewards.code import ALARMS, MEASURES, PARTS, language_of, title_of
from collab.rewards.code.trial import score_fields, trial_of
from collab.rewards.parts import PartFunction

_PARTS_BY_MODULE = {
    **PARTS,
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
    {name: f"{module}:{name}" for module, names in _PARTS_BY_MODULE.items() for name in names},
)

AGENT_OPTIONS = ("agent", "helper")
"""Options that name an agent or a role. The part does not apply to a team without it."""

__all__ = [
    "ALARMS",
    "BUILT_IN",
    "MEASURES",
    "language_of",
    "open_part",
    "score_fields",
    "title_of",
    "trial_of",
]


def open_part(name: str, spec: PartSpec) -> PartFunction:
    """Return the function of a part, with its options.

    Raises:
        RecipeError: there is no such function, it does not take an option, or it is one of TRL.
    """
    function = find_function("reward", spec.use, BUILT_IN)
    what = f"reward part '{name}' ({spec.use})"
    parameters = signature_of(what, function).parameters
    if "completions" in parameters:
        raise RecipeError(
            f"{what} takes completions, like a reward function of TRL, but a part takes a context;"
            " wrap it with collab.rewards.from_trl"
        )
    options = check_options(what, function, spec.options)
    check_call(what, function, ("context",), options)
    named = [option for option in AGENT_OPTIONS if option in parameters]
    values = {option: options.get(option, parameters[option].default) for option in named}
    agents = {option: agent for option, agent in values.items() if agent and isinstance(agent, str)}
    return PartFunction(name, function, options, spec.use in BUILT_IN, agents)
