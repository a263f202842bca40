"""The reward parts that come with collab, by the name a recipe uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collab.rewards import code, cooperation, generic, writing

BUILT_IN: dict[str, Callable[..., Any]] = {
    "defines": code.defines,
    "parses": code.parses,
    "tests": code.tests,
    "solved": code.solved,
    "calls": cooperation.calls,
    "not_wrapper": cooperation.not_wrapper,
    "ignores": cooperation.ignores,
    "length": generic.length,
    "contains": generic.contains,
    "equals": generic.equals,
    "utility": generic.utility,
    "lengths": writing.lengths,
    "length_ratio": writing.length_ratio,
    "vocabulary": writing.vocabulary,
    "transitions": writing.transitions,
    "shared_words": writing.shared_words,
    "faithfulness": writing.faithfulness,
}
