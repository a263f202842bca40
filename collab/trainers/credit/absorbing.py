"""What a solved task, which is an absorbing state, goes on earning until the horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from collab.records import Episode


def solved_before(episodes: Sequence[Episode], turn: int) -> tuple[tuple[int, int], ...]:
    """The last joint actions of the episodes that were solved before a turn, and stay so in it.

    Each is a `Node`: the position of an episode in its group, and a turn of it.
    """
    ends = ((number, len(e.turns) - 1, e.absorbed) for number, e in enumerate(episodes))
    return tuple((number, last) for number, last, n in ends if last < turn <= last + n)


def earned_from(
    turn: int,
    last: Mapping[str, float],
    node: tuple[int, int],
    episodes: Sequence[Episode],
    discount: float,
) -> dict[str, float]:
    """By agent, what a solved state earns from `turn` on, a turn that is not played.

    Args:
        last: by agent, the reward of the episode's last joint action, which is at `node`.
    """
    left = node[1] + 1 + episodes[node[0]].absorbed - turn
    return {agent: geometric(discount, left) * reward for agent, reward in last.items()}


def geometric(discount: float, terms: int) -> float:
    """The sum of the first `terms` of 1 + gamma + gamma^2 + .."""
    return fsum(discount**k for k in range(terms))
