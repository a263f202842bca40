"""Kuhn poker (1950): three cards, one bet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

from collab.environments.base import Environment, Observation, Step

CARDS = ("jack", "queen", "king")
"""Cards, from the lowest to the highest."""

FORFEIT_COST = 2.0
"""Cost of an illegal move, as much as the worst legal one, so that it never pays."""

_MOVE_PATTERN = re.compile(r"(?:i (?:will )?|action: )?(check|bet|call|fold)", re.ASCII)

OPENING_MOVES, RESPONSES = ("check", "bet"), ("call", "fold")
LEGAL_MOVES = {"": OPENING_MOVES, "c": OPENING_MOVES, "b": RESPONSES, "cb": RESPONSES}
"""Legal moves by history, both as first letters. Any other history is a finished game."""


class Kuhn(Environment):
    """Two players ante one chip each, are dealt one of three cards each, and may bet one more chip.

    `first` checks or bets. After a bet, the other calls or folds. A player who folds loses the
    ante. After two checks or a call, the higher card wins the other's chips. Both earn their
    winnings, 1 or 2 chips. The game is zero-sum. An action is the word, also `I bet`, `I will bet`
    or `action: bet`. Any other answer forfeits two chips.
    """

    seats = ("first", "second")
    turns = 3
    returns = (-2.0, 2.0)
    zero_sum = True

    def __init__(self) -> None:
        self._cards = (0, 1)
        self._history = ""
        self._deal = ""

    def reset(self, random: Random) -> Step:
        first, second = random.sample(range(3), 2)
        self._cards, self._history = (first, second), ""
        self._deal = f"first holds the {CARDS[first]}, second the {CARDS[second]}"
        return Step(self._observations())

    def step(self, actions: Mapping[str, str]) -> Step:
        player = len(self._history) % 2
        seat = self.seats[player]
        move = self.read(actions[seat], self._history)
        if move is None:
            self._history += "x"
            earned = -FORFEIT_COST if player == 0 else FORFEIT_COST
            summary = f"{seat} made no legal move and forfeits"
            return Step({}, self._payoff(earned), summary=summary, values={"legal": 0.0})
        self._history += move[0]
        summary = f"{seat} {move}s"
        if self._history in LEGAL_MOVES:
            return Step(self._observations(), summary=summary)
        earned = chips_won(self._history, self._cards)
        summary += f"; {self.seats[0 if earned > 0 else 1]} wins {abs(earned):g}"
        return Step({}, self._payoff(earned), summary=summary, values={"legal": 1.0})

    def render(self) -> str:
        words = {"c": "check", "b": "bet", "x": "no legal move", "f": "fold"}
        lines = [
            "call" if letter == "c" and "b" in self._history[:n] else words[letter]
            for n, letter in enumerate(self._history)
        ]
        return f"{self._deal}\n{', '.join(lines) or 'nobody has acted'}"

    def moves(self) -> Mapping[str, Sequence[str]]:
        legal = LEGAL_MOVES.get(self._history, ())
        return {self.seats[len(self._history) % 2]: legal} if legal else {}

    def _observations(self) -> dict[str, Observation]:
        player = len(self._history) % 2
        card, legal = CARDS[self._cards[player]], LEGAL_MOVES[self._history]
        before = {"": "Nobody has bet", "c": "The other player checked"}
        situation = before.get(self._history, "The other player bet")
        text = f"You hold the {card}. {situation}. You may {' or '.join(legal)}."
        return {self.seats[player]: Observation(text, card=card, summary=situation, legal=[*legal])}

    @staticmethod
    def read(text: str, history: str) -> str | None:
        """Return the move in an answer, given the history, or None if it is not legal."""
        matched = _MOVE_PATTERN.fullmatch(text[:100].strip().rstrip(".!").lower())
        return matched[1] if matched and matched[1] in LEGAL_MOVES[history] else None

    def _payoff(self, first: float) -> dict[str, float]:
        return {"first": first, "second": -first}


def chips_won(history: str, cards: tuple[int, int]) -> float:
    """Return the chips that the first player wins in a finished game."""
    if history.endswith("bf"):
        return 1.0 if len(history) == 2 else -1.0
    stake = 2.0 if "b" in history else 1.0
    return stake if cards[0] > cards[1] else -stake
