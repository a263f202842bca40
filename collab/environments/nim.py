"""Nim: the player who takes the last stick wins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

from collab.environments.base import Environment, Observation, Step
from collab.errors import RecipeError

MAX_STICKS = 30

_MOVE_PATTERN = re.compile(r"take ([1-9]\d?) from ([1-9])", re.ASCII)


class Nim(Environment):
    """Two players take turns removing one or more sticks from a heap. Zero-sum.

    An action is the text `take 2 from 1`, with heaps counted from 1. Whitespace around it and a
    full stop do not matter. Any other answer forfeits the game. The winner earns 1, the loser -1.

    Args:
        heaps: sticks of each heap, 30 in all at most; by default drawn by the seed, two or three
            heaps of one to five.
    """

    seats = ("first", "second")
    returns = (-1.0, 1.0)
    zero_sum = True

    def __init__(self, heaps: tuple[int, ...] = ()) -> None:
        if heaps and not (len(heaps) <= 9 and min(heaps) >= 0 and 0 < sum(heaps) <= MAX_STICKS):
            raise RecipeError(
                f"environment 'nim': heaps {[*heaps]} must be at most 9, with 1 to"
                f" {MAX_STICKS} sticks in all"
            )
        self._initial_heaps = heaps
        self._heaps: list[int] = list(heaps)
        self._player = 0
        self._winner: int | None = None
        self.turns = sum(heaps) or 15

    def reset(self, random: Random) -> Step:
        drawn = [random.randint(1, 5) for _ in range(random.randint(2, 3))]
        self._heaps = list(self._initial_heaps) or drawn
        self._player, self._winner = 0, None
        return Step(self._observations())

    def step(self, actions: Mapping[str, str]) -> Step:
        player = self.seats[self._player]
        move = self._read_move(actions[player])
        if move is None:
            self._winner = 1 - self._player
            return Step({}, self._payoff(), summary=f"{player} made no legal move and forfeits")
        taken, heap = move
        self._heaps[heap] -= taken
        summary = f"{player} takes {taken} from heap {heap + 1}"
        if not any(self._heaps):
            self._winner = self._player
            return Step({}, self._payoff(), summary=f"{summary}, the last, and wins")
        self._player = 1 - self._player
        return Step(self._observations(), summary=summary)

    def render(self) -> str:
        rows = [f"heap {n}: {'|' * left or '-'}" for n, left in enumerate(self._heaps, start=1)]
        state = "to move: " + self.seats[self._player]
        if self._winner is not None:
            state = f"won by {self.seats[self._winner]}"
        return "\n".join([*rows, state])

    def moves(self) -> Mapping[str, Sequence[str]]:
        if self._winner is not None:
            return {}
        legal = [
            f"take {taken} from {number}"
            for number, left in enumerate(self._heaps, start=1)
            for taken in range(1, left + 1)
        ]
        return {self.seats[self._player]: legal}

    def _observations(self) -> dict[str, Observation]:
        listed = [f"heap {n} has {left}" for n, left in enumerate(self._heaps, start=1) if left]
        text = f"Of the sticks, {', '.join(listed)}."
        return {self.seats[self._player]: Observation(text, heaps=[*self._heaps])}

    def _read_move(self, text: str) -> tuple[int, int] | None:
        """Return the number of sticks and the heap counted from 0, or None if the move is not
        legal."""
        matched = _MOVE_PATTERN.fullmatch(text[:100].strip().removesuffix(".").lower())
        if not matched:
            return None
        taken, heap = int(matched[1]), int(matched[2]) - 1
        return (taken, heap) if heap < len(self._heaps) and taken <= self._heaps[heap] else None

    def _payoff(self) -> dict[str, float]:
        return {seat: 1.0 if n == self._winner else -1.0 for n, seat in enumerate(self.seats)}
