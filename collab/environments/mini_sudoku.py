"""A Sudoku of four by four: a critic and a filler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Annotated

from pydantic import Field

from collab.environments.base import Environment, Observation, Step

Grid = list[list[int]]

MAX_LINES, MAX_CHARACTERS = 16, 1000
_ENTRY = re.compile(r"([1-4])[ ,]+([1-4])[ ,]+([1-4])", re.ASCII)


class MiniSudoku(Environment):
    """The filler writes digits, and the critic comments on the grid. Both are paid.

    Rows, columns and the four squares of two by two hold 1 to 4 once each, with a unique solution.
    The filler's action has one line `row column digit` per cell, e.g. `1 2 4`, 16 at most. It may
    overwrite its own digits, not the given ones. The critic's text changes nothing in the grid, and
    reaches the filler if the protocol shows it, such as `sequential`. Each turn pays the newly
    correct cells as a share of the empty ones. It costs 0.5 if a digit conflicts in a row, column
    or square. It costs 1 if a line cannot be read or overwrites a given digit, or 2 if no line can
    be read. The solved grid pays 2 (Sudoku of PettingLLMs).

    Args:
        blanks: number of empty cells.
    """

    seats = ("critic", "filler")

    def __init__(
        self,
        *,
        blanks: Annotated[int, Field(ge=1, le=10)] = 6,
        turns: Annotated[int, Field(ge=1, le=8)] = 3,
    ) -> None:
        self.turns, self._blank_count = turns, blanks
        self.returns = (-2.5 * turns, 3.0)
        self._grid: Grid = []
        self._solution: Grid = []
        self._blank_cells: frozenset[tuple[int, int]] = frozenset()
        self._turns_played = 0

    def reset(self, random: Random) -> Step:
        self._solution = random_grid(random)
        cells = [(row, column) for row in range(4) for column in range(4)]
        while True:
            self._blank_cells = frozenset(random.sample(cells, self._blank_count))
            self._grid = [
                [0 if (r, c) in self._blank_cells else self._solution[r][c] for c in range(4)]
                for r in range(4)
            ]
            if len(list(islice(solutions(self._grid), 2))) == 1:
                break
        self._turns_played = 0
        return Step(self._observations())

    def step(self, actions: Mapping[str, str]) -> Step:
        self._turns_played += 1
        before = self._progress()
        entries, unread = read_entries(actions["filler"])
        written = [(r, c, digit) for r, c, digit in entries if (r, c) in self._blank_cells]
        for row, column, digit in written:
            self._grid[row][column] = digit
        reward = self._progress() - before
        clashes = any(has_clash(self._grid, row, column) for row, column, _ in written)
        if not entries:
            reward -= 2.0
        elif unread or len(written) < len(entries):
            reward -= 1.0
        reward -= 0.5 * clashes
        solved = self._grid == self._solution
        over = solved or self._turns_played == self.turns
        summary = f"the filler writes {len(written)} digits" + ", some of which clash" * clashes
        seen = {} if over else self._observations()
        progress = {"right": self._progress()}
        return Step(seen, reward + 2.0 * solved, solved, summary, progress)

    def render(self) -> str:
        return "\n".join(" ".join(str(digit or ".") for digit in row) for row in self._grid)

    def moves(self) -> Mapping[str, Sequence[str]]:
        if self._grid == self._solution or self._turns_played == self.turns:
            return {}
        right = [f"{r + 1} {c + 1} {self._solution[r][c]}" for r, c in sorted(self._blank_cells)]
        wrong = [f"{line[:-1]}{int(line[-1]) % 4 + 1}" for line in right]
        return {"critic": ["go on"], "filler": [right[0], *wrong, "\n".join(right)]}

    def _progress(self) -> float:
        """Return the share of the empty cells that now hold the right digit."""
        right = [self._grid[r][c] == self._solution[r][c] for r, c in self._blank_cells]
        return sum(right) / len(right)

    def _observations(self) -> dict[str, Observation]:
        grid = self.render()
        rules = "Rows, columns and squares of two by two hold 1 to 4 each once; . is empty."
        return {
            "critic": Observation(
                f"{grid}\n{rules} What is wrong, and what comes next?", grid=grid
            ),
            "filler": Observation(f"{grid}\n{rules} Write lines: row column digit.", grid=grid),
        }


def read_entries(text: str) -> tuple[list[tuple[int, int, int]], bool]:
    """Return the entries in an answer, with indices from 0, and whether it has invalid lines."""
    lines = [line.strip().rstrip(".") for line in text[:MAX_CHARACTERS].splitlines()]
    lines = [line for line in lines if line]
    matched = [_ENTRY.fullmatch(line) for line in lines[:MAX_LINES]]
    digits = [(int(m[1]) - 1, int(m[2]) - 1, int(m[3])) for m in matched if m]
    return digits, len(digits) < len(lines)


def random_grid(random: Random) -> Grid:
    """Return a random grid that is completely filled."""
    digits = random.sample(range(1, 5), 4)
    rows = [r for band in random.sample((0, 2), 2) for r in random.sample((band, band + 1), 2)]
    columns = [c for band in random.sample((0, 2), 2) for c in random.sample((band, band + 1), 2)]
    grid = [[digits[(2 * (r % 2) + r // 2 + c) % 4] for c in columns] for r in rows]
    return [list(row) for row in zip(*grid, strict=True)] if random.random() < 0.5 else grid


def solutions(grid: Grid) -> Iterator[Grid]:
    """Yield all ways to fill a grid. The grid is as before once they are all read."""
    empty = next(((r, c) for r in range(4) for c in range(4) if not grid[r][c]), None)
    if empty is None:
        yield [list(row) for row in grid]
        return
    row, column = empty
    for digit in range(1, 5):
        grid[row][column] = digit
        if not has_clash(grid, row, column):
            yield from solutions(grid)
    grid[row][column] = 0


def has_clash(grid: Grid, row: int, column: int) -> bool:
    """Return True if a cell's digit occurs again in its row, column or square."""
    digit = grid[row][column]
    top, left = row - row % 2, column - column % 2
    square = [(r, c) for r in (top, top + 1) for c in (left, left + 1)]
    peers = {(row, c) for c in range(4)} | {(r, column) for r in range(4)} | set(square)
    return any(grid[r][c] == digit for r, c in peers - {(row, column)})
