"""Tic-tac-toe: three in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal

from collab.environments.base import Environment, Observation, Step

LINES = (
    (0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6),
)  # fmt: skip


class TicTacToe(Environment):
    """Two players take turns marking cells of a three-by-three board. Zero-sum.

    An action is the number of an empty cell, from 1 at the top left to 9 at the bottom right. Any
    other answer forfeits the game. The winner earns 1, the loser -1, a draw nothing.

    Args:
        opened: marks on the initial board, set by the seed, half of them for each player.
    """

    seats = ("x", "o")
    turns = 9
    returns = (-1.0, 1.0)
    zero_sum = True

    def __init__(self, *, opened: Literal[0, 2, 4] = 0) -> None:
        self._opened = opened
        self._board = [""] * 9
        self._marks_placed = 0
        self._result = ""

    def reset(self, random: Random) -> Step:
        self._result = ""
        while True:
            self._board, self._marks_placed = [""] * 9, self._opened
            for n, cell in enumerate(random.sample(range(9), self._opened)):
                self._board[cell] = self.seats[n % 2]
            if not winner(self._board):
                return Step(self._observations())

    def step(self, actions: Mapping[str, str]) -> Step:
        player = self.seats[self._marks_placed % 2]
        cell = self._read_move(actions[player])
        if cell is None:
            other = "o" if player == "x" else "x"
            return self._end_game(other, f"{player} forfeits: no legal move")
        self._board[cell] = player
        self._marks_placed += 1
        summary = f"{player} takes {cell + 1}"
        if winner(self._board):
            return self._end_game(player, f"{summary} and wins")
        if all(self._board):
            self._result = "a draw"
            return Step({}, summary=f"{summary}: a draw")
        return Step(self._observations(), summary=summary)

    def render(self) -> str:
        state = self._result or f"to move: {self.seats[self._marks_placed % 2]}"
        return f"{self._draw_board('.')}\n{state}"

    def moves(self) -> Mapping[str, Sequence[str]]:
        empty = [str(n + 1) for n, mark in enumerate(self._board) if not mark]
        return {} if self._result else {self.seats[self._marks_placed % 2]: empty}

    def _observations(self) -> dict[str, Observation]:
        player = self.seats[self._marks_placed % 2]
        empty = [n + 1 for n, mark in enumerate(self._board) if not mark]
        text = f"{self._draw_board()}\nYou are {player}. Empty cells: {', '.join(map(str, empty))}."
        return {player: Observation(text, board=self._draw_board(), mark=player, empty=empty)}

    def _draw_board(self, empty: str = "") -> str:
        cells = [mark or empty or str(n + 1) for n, mark in enumerate(self._board)]
        return "\n".join(" ".join(cells[row : row + 3]) for row in (0, 3, 6))

    def _read_move(self, text: str) -> int | None:
        word = text[:20].strip().rstrip(".")
        known = len(word) == 1 and word in "123456789"
        return int(word) - 1 if known and not self._board[int(word) - 1] else None

    def _end_game(self, winner: str, summary: str) -> Step:
        self._result = f"won by {winner}"
        loser = "o" if winner == "x" else "x"
        return Step({}, {winner: 1.0, loser: -1.0}, summary=summary)


def winner(board: Sequence[str]) -> str:
    """Return the mark that has three in a row, or "" if there is none."""
    rows = (tuple(board[cell] for cell in line) for line in LINES)
    return next((row[0] for row in rows if row[0] and row.count(row[0]) == 3), "")
