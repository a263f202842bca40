"""Tic-tac-toe: the value of a position under best play."""

from __future__ import annotations

from functools import cache

from collab.environments.tic_tac_toe import winner


@cache
def value(board: tuple[str, ...], player: str = "x") -> int:
    """Return the payoff of `player`, who moves next, under best play: 1, 0 or -1."""
    if winner(board):
        return -1
    empty = [n for n, mark in enumerate(board) if not mark]
    other = "o" if player == "x" else "x"
    moved = ((*board[:n], player, *board[n + 1 :]) for n in empty)
    return max((-value(after, other) for after in moved), default=0)
