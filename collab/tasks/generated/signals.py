"""Signals: a speaker sees a target and sends one signal, and a listener picks among some things.

The signals mean nothing until both give them a meaning (Lewis, Convention, 1969). The speaker does
not know the listener's choices or their order, so it cannot say "the first one".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random
from typing import Any, Literal

THINGS = ("bread", "chair", "horse", "clock")
SIGNALS = ("red", "blue", "pink", "gray")
"""The signals. There are as many as things, so a convention exists that is always right."""


def signals(random: Random, *, level: Literal[1, 2, 3] = 2) -> Iterator[dict[str, Any]]:
    """Yield all choices among two, three or four things, with each target, in random order."""
    seen = [(target, choices) for choices in permutations(THINGS, level + 1) for target in choices]
    random.shuffle(seen)
    for number, (target, choices) in enumerate(seen):
        yield {
            "target": target,
            "choices": ", ".join(choices),
            "signals": ", ".join(SIGNALS),
            "task_id": f"signals/{number}",
        }
