"""Kuhn poker: values of strategies against each other, and their distance from best play.

A strategy gives the probability of each move for every situation of its seat, a card and the
history. Moves are first letters: `c` check or call, `b` bet, `f` fold. The remaining probability is
forfeit.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from math import fsum

from collab.environments.kuhn import CARDS, FORFEIT_COST, LEGAL_MOVES, chips_won

Situation = tuple[str, str]
"""A card and the history as first letters, "" at the start."""

Strategy = Mapping[Situation, Mapping[str, float]]

VALUE = -1 / 18
"""Mean winnings per game of the first seat if both play best."""

DEALS = tuple(permutations(range(3), 2))


def situations() -> list[Situation]:
    """Return all twelve situations, six of each seat."""
    return [(card, history) for history in LEGAL_MOVES for card in CARDS]


def equilibrium(alpha: float = 1 / 3) -> dict[Situation, dict[str, float]]:
    """Return the best play of both seats. The first may bet its jack with any probability from 0 to
    1/3.
    """
    bets = {"": (alpha, 0.0, 3 * alpha), "c": (1 / 3, 0.0, 1.0)}
    calls = {"b": (0.0, 1 / 3, 1.0), "cb": (0.0, alpha + 1 / 3, 1.0)}
    strategy: dict[Situation, dict[str, float]] = {}
    for n, card in enumerate(CARDS):
        strategy |= {(card, h): {"b": p[n], "c": 1 - p[n]} for h, p in bets.items()}
        strategy |= {(card, h): {"c": p[n], "f": 1 - p[n]} for h, p in calls.items()}
    return strategy


def uniform() -> dict[Situation, dict[str, float]]:
    """Return a strategy with equal probability for every legal move."""
    return {(card, h): {m[0]: 0.5 for m in LEGAL_MOVES[h]} for card, h in situations()}


def value(first: Strategy, second: Strategy) -> float:
    """Return the mean payoff of the first seat, in chips per game."""
    return fsum(_value("", cards, (first, second)) for cards in DEALS) / len(DEALS)


def exploitability(strategy: Strategy) -> float:
    """Return the mean gain per game, in chips, of best replies against a strategy that plays both
    seats. An equilibrium scores 0."""
    gains = (_best(strategy, 0), _best(strategy, 1))
    return fsum(gains) / 2


def _value(history: str, cards: tuple[int, int], players: tuple[Strategy, Strategy]) -> float:
    """Return the expected payoff of the first seat from here on."""
    if history not in LEGAL_MOVES:
        return chips_won(history, cards)
    player = len(history) % 2
    chances = players[player][CARDS[cards[player]], history]
    lost = FORFEIT_COST if player else -FORFEIT_COST
    forfeits = max(0.0, 1.0 - fsum(chances.values())) * lost
    moves = fsum(p * _value(history + m, cards, players) for m, p in chances.items() if p)
    return forfeits + moves


def _best(strategy: Strategy, seat: int) -> float:
    """Return the payoff of the best reply in a seat against the strategy in the other seat.

    A seat's situations are solved from the last to the first. In each, one move is best.
    """
    reply = uniform()  # so that every situation can be reached when it is solved
    decided = [s for s in situations() if len(s[1]) % 2 == seat]
    for situation in sorted(decided, key=lambda s: -len(s[1])):
        letters = [move[0] for move in LEGAL_MOVES[situation[1]]]
        worth = {m: _earned({**reply, situation: {m: 1.0}}, strategy, seat) for m in letters}
        reply[situation] = {max(worth, key=lambda m: worth[m]): 1.0}
    return _earned(reply, strategy, seat)


def _earned(strategy: Strategy, other: Strategy, seat: int) -> float:
    return value(strategy, other) if seat == 0 else -value(other, strategy)
