"""Converts rows of published data to collab's rows. Each format is a function in a file here.

A format is a function of a row and its options. It returns the row that agents, tests and rewards
read: `prompt`, and the fields that the suite's reward needs. The data stay as published, and nobody
has to copy them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collab.errors import TaskError, Unfit
from collab.lazy import BuiltIn
from collab.plugins import bind_options, call_function
from collab.recipe.base import Component

SuiteRow = dict[str, Any]

BUILT_IN = BuiltIn(
    "collab.tasks.formats",
    {
        "apps": "contests:apps",
        "classeval": "classes:classeval",
        "evalplus": "evalplus:evalplus",
        "gsm8k": "mathematics:gsm8k",
        "livecodebench": "contests:livecodebench",
        "math": "mathematics:competition",
        "mbpp": "mbpp:mbpp",
        "pro": "pro:pro",
    },
)


def converter_for(form: Component) -> Callable[[str, SuiteRow], SuiteRow]:
    """Return a function that converts a published row, given its position for messages.

    Raises:
        RecipeError: there is no such format, or it does not take these options. The returned
            function raises TaskError for a malformed row, and Unfit for a row that cannot be run
            here.
    """
    function = bind_options("format", form.use, form.options, BUILT_IN, "row")

    def adapt(place: str, row: SuiteRow) -> SuiteRow:
        what = f"{place}: the format '{form.use}'"
        try:
            made = call_function(what, TaskError, function, row)
        except Unfit:
            raise
        except TaskError as error:
            reason = str(error).removeprefix(f"{what}: ")
            raise TaskError(f"{what}: {reason}") from error
        if not isinstance(made, dict):
            raise TaskError(
                f"{what} returned a {type(made).__name__}; a format must return a mapping"
            )
        return made

    return adapt
