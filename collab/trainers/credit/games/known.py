"""Games whose credit is known in advance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from collab.trainers.credit.games.game import Game, GameTable


def one_turn(rewards: ArrayLike, *chances: ArrayLike) -> Game:
    """Return a game of one turn in which agents `a`, `b`, .. act at the same time.

    Args:
        rewards: by joint action, of shape [K_1, .., K_n].
        chances: the probabilities of each agent's actions.
    """
    table = np.asarray(rewards, dtype=float)
    names = tuple("abcdefgh"[: table.ndim])
    return Game(
        names, (table,), {(n, 0, 0): logits(p) for n, p in zip(names, chances, strict=True)}
    )


def logits(chances: ArrayLike) -> GameTable:
    """Return logits whose softmax gives these probabilities."""
    table: GameTable = np.log(np.asarray(chances, dtype=float))
    return table


def two_actions(rewards: ArrayLike, *chances: float) -> Game:
    """Return a `one_turn` game with two actions per agent. `chances` are those of the first."""
    return one_turn(rewards, *([p, 1 - p] for p in chances))


def paper_game(p: float = 0.5, q: float = 0.5) -> Game:
    """Return the game of arXiv 2508.04652: 10 if both agents cooperate, 7 if one does, else 0."""
    return two_actions([[10, 7], [7, 0]], p, q)


def word_pair(name: str, p: float = 0.5, q: float = 0.5) -> Game:
    """Return a game of two agents that pays 1 if `name` holds: `and`, `or` or `xor` of their first
    actions.

    `p` and `q` are the probabilities of the first actions. At p = q = 1/2, XOR is pure interaction:
    neither agent's action has a value by itself.
    """
    tables = {"and": [[1, 0], [0, 0]], "or": [[1, 1], [1, 0]], "xor": [[0, 1], [1, 0]]}
    return two_actions(tables[name], p, q)


def additive(alpha: Sequence[float] = (0, 1, 3), beta: Sequence[float] = (5, -4)) -> Game:
    """Return a game paid the sum of each agent's own value. All actions are equally likely."""
    rewards = np.add.outer(np.asarray(alpha, dtype=float), np.asarray(beta, dtype=float))
    return one_turn(rewards, np.full(len(alpha), 1 / len(alpha)), np.full(len(beta), 1 / len(beta)))


def dummy() -> Game:
    """Return a game in which agent `a` has no influence on the reward, and `b` alone decides it."""
    return one_turn(np.tile([4.0, 1.0, 0.0], (3, 1)), [0.5, 0.3, 0.2], [0.2, 0.3, 0.5])


def all_right() -> Game:
    """Return a game of three agents with two actions, paid 1 if all take the first."""
    rewards = np.zeros((2, 2, 2))
    rewards[0, 0, 0] = 1.0
    return two_actions(rewards, 0.4, 0.4, 0.4)
