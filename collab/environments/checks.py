"""What is asked of every step of a game, and of what it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from collab.environments.base import Observation, Step

_TOLD = (str, Observation)


def fault_of(step: Any, seats: Sequence[str]) -> str:
    """What is wrong with what a game gave as a step; "" for nothing."""
    if not isinstance(step, Step):
        return f"a {type(step).__name__}, not a Step"
    paid = step.rewards if isinstance(step.rewards, Mapping) else {"": step.rewards}
    for seat in (*step.observations, *filter(None, paid)):
        if seat not in seats:
            return f"something to '{seat}', which is none of its seats: {', '.join(seats)}"
    wrong = [t for t in map(type, step.observations.values()) if not issubclass(t, _TOLD)]
    if wrong:
        return f"a {wrong[0].__name__} to observe, not text or an Observation"
    for reward in paid.values():
        if not _is_number(reward):
            return f"the reward {reward!r:.80}, not a finite number"
    for name, value in step.values.items():
        if not (_is_number(value) and 0 <= value <= 1):
            return f"the value {value!r:.80} for '{name}', not a number from 0 to 1"
    return ""


def by_seat(rewards: float | Mapping[str, float], seats: Sequence[str]) -> dict[str, float]:
    """What each seat earns in a step."""
    if isinstance(rewards, Mapping):
        return {seat: float(rewards.get(seat, 0.0)) for seat in seats}
    return dict.fromkeys(seats, float(rewards))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)
