"""Which responses are compared: pairs of a task's samples, by the largest gaps of their reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, log1p, tanh

from collab.trainers.credit.group import Node

TIE = 1e-9
"""A gap up to this is rounding: neither response is the better."""


@dataclass(frozen=True)
class Preference:
    """Two joint actions of a group, of which one is the better."""

    win: Node
    lose: Node
    gap: float
    """By how much."""


def best_pairs(nodes: Sequence[Node], values: Sequence[float], most: int) -> list[Preference]:
    """The pairs of `nodes` whose values differ most, at most so many; ties never.

    Of equal gaps the pair that was sampled first comes first.
    """
    found = []
    for (node, value), (other, its_value) in combinations(zip(nodes, values, strict=True), 2):
        gap = value - its_value
        if abs(gap) > TIE:
            win, lose = (node, other) if gap > 0 else (other, node)
            found.append(Preference(win, lose, abs(gap)))
    return sorted(found, key=lambda pair: -pair.gap)[:most]


def chance_of_losing(margin: float) -> float:
    """sigmoid(-margin), the chance that the Bradley-Terry model gives the worse one."""
    return 0.5 * (1 - tanh(margin / 2))


def loss_of(margin: float) -> float:
    """-log sigmoid(margin), in nats."""
    return max(-margin, 0.0) + log1p(exp(-abs(margin)))
