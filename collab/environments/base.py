"""The base class of environments, with the terms of PettingZoo's parallel interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from numbers import Real
from random import Random
from typing import Any


class Observation(dict[str, Any]):
    """The observation of one seat: a string, and fields for templates with their own wording.

    A template shows the string as `{{ observation }}`, and a field as `{{ observation.NAME }}`.
    """

    def __init__(self, text: str = "", **fields: Any) -> None:
        super().__init__(fields)
        self.text = text

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Step:
    """The result of a joint action, or of a reset."""

    observations: Mapping[str, Observation | str] = field(default_factory=dict)
    """Observations of the seats that act next. If there are none, the game has ended."""
    rewards: float | Mapping[str, float] = 0.0
    """Rewards of this step: one number for all, as in a cooperative game, or a mapping by seat.
    Missing seats earn 0."""
    solved: bool | None = None
    """True if the task is solved, or None in games without a task."""
    summary: str = ""
    """Description of the events, in one line for people."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Fractions from 0 to 1 shown with the reward, such as the completed part of a goal.

    The values at the end of a game become training metrics.
    """

    @property
    def ended(self) -> bool:
        return not self.observations


class Environment(ABC):
    """One game, from its first state to its end. The constructor receives its options.

    An action is a string that a model wrote, with any content. An illegal action is an ordinary
    outcome, such as a forfeit, and never an exception. All randomness comes from the argument of
    `reset`, so that `copy.deepcopy` makes a game that continues in the same way.
    """

    seats: tuple[str, ...]
    """Seats, in the game's own words, e.g. `("first", "second")`."""
    turns: int
    """Maximum number of steps. A game ends by itself after these."""
    returns: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest total reward of a seat in a whole game."""
    zero_sum: bool = False
    """True if one seat's gain is the others' loss, so that the joint reward is always 0."""

    @abstractmethod
    def reset(self, random: Random) -> Step:
        """Begin a game and return its first step, which has no rewards. The same `random` begins
        the same game."""

    @abstractmethod
    def step(self, actions: Mapping[str, str]) -> Step:
        """Apply the actions, one per seat that must act, and return the new observations and
        rewards.
        """

    @abstractmethod
    def render(self) -> str:
        """Return the whole state as text for people. No agent sees it."""

    def moves(self) -> Mapping[str, Sequence[str]]:
        """Return some or all legal actions of each seat that acts now, as strings.

        If the result is empty, checks play without legal moves.
        """
        return {}

    @property
    def largest_return(self) -> float:
        """The largest joint return. A joint return is the mean of the seats' returns."""
        return 0.0 if self.zero_sum else self.returns[1]


_OBSERVATION_TYPES = (str, Observation)
_FIELD_TYPES: dict[str, tuple[type, str]] = {
    "observations": (Mapping, "observations, not a mapping"),
    "values": (Mapping, "values, not a mapping"),
    "summary": (str, "a summary, not text"),
}


def fault_of(step: Any, seats: Sequence[str]) -> str:
    """Return a description of the fault in a game's step, or "" if there is none."""
    if fault := _find_wrong_type(step):
        return fault
    rewards = step.rewards if isinstance(step.rewards, Mapping) else {"": step.rewards}
    for seat in (*step.observations, *filter(None, rewards)):
        if seat not in seats:
            known = ", ".join(seats)
            return (
                f"an observation or a reward for '{seat}', which is not one of its seats: {known}"
            )
    wrong = [
        t for t in map(type, step.observations.values()) if not issubclass(t, _OBSERVATION_TYPES)
    ]
    if wrong:
        return f"a {wrong[0].__name__} as an observation, not text or an Observation"
    for reward in rewards.values():
        if not _is_number(reward):
            return f"the reward {reward!r:.80}, not a finite number"
    for name, value in step.values.items():
        if not (_is_number(value) and 0 <= value <= 1):
            return f"the value {value!r:.80} for '{name}', not a number from 0 to 1"
    return ""


def _find_wrong_type(step: Any) -> str:
    if not isinstance(step, Step):
        return f"a {type(step).__name__}, not a Step"
    for name, (kind, wanted) in _FIELD_TYPES.items():
        if not isinstance(value := getattr(step, name), kind):
            return f"a {type(value).__name__} as {wanted}"
    is_known = step.solved in (True, False, None)
    return "" if is_known else f"{step.solved!r:.80} as solved, not True, False or None"


def fault_of_start(step: Any, seats: Sequence[str]) -> str:
    """Return a description of the fault in what `reset` returned, or "" if there is none."""
    fault = fault_of(step, seats)
    return fault if fault or step.observations else "no observation, so no seat can act"


def fault_of_state(state: Any) -> str:
    """Return a description of the fault in what `render` returned, or "" if there is none."""
    return "" if isinstance(state, str) else f"a {type(state).__name__}, not text"


def rewards_by_seat(rewards: float | Mapping[str, float], seats: Sequence[str]) -> dict[str, float]:
    """Return the reward of each seat, for a step with one reward for all seats or one per seat."""
    if isinstance(rewards, Mapping):
        return {seat: float(rewards.get(seat, 0.0)) for seat in seats}
    return dict.fromkeys(seats, float(rewards))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and isfinite(value)  # also a number of numpy
