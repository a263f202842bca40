"""Two palettes build a bitmap: a letter of five by five cells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated

from pydantic import Field

from collab.environments.base import Environment, Observation, Step
from collab.errors import RecipeError

LETTERS = {
    "A": ".###. #...# ##### #...# #...#", "C": "##### #.... #.... #.... #####",
    "E": "##### #.... ####. #.... #####", "F": "##### #.... ####. #.... #....",
    "H": "#...# #...# ##### #...# #...#", "I": "##### ..#.. ..#.. ..#.. #####",
    "J": "##### ...#. ...#. #..#. .##..", "L": "#.... #.... #.... #.... #####",
    "N": "#...# ##..# #.#.# #..## #...#", "O": ".###. #...# #...# #...# .###.",
    "P": "####. #...# ####. #.... #....", "S": "##### #.... ##### ....# #####",
    "T": "##### ..#.. ..#.. ..#.. ..#..", "U": "#...# #...# #...# #...# .###.",
    "X": "#...# .#.#. ..#.. .#.#. #...#", "Z": "##### ...#. ..#.. .#... #####",
}  # fmt: skip
PALETTES = {"warm": ("red", "yellow"), "cold": ("blue", "green")}
SIZE, MAX_COMMANDS, MAX_CHARACTERS = 5, 25, 2000

_FILL_COMMAND = re.compile(r"fill ([a-z]+) ([1-5]) ([1-5]) ([1-5]) ([1-5])", re.ASCII)
_CLEAR_COMMAND = re.compile(r"clear ([1-5]) ([1-5]) ([1-5]) ([1-5])", re.ASCII)

GridCell = tuple[int, int]


class Blocks2d(Environment):
    """Two builders with two colors each build a letter together, and both are paid.

    An action has one command per line, such as `fill red 1 1 1 5` (from column and row to column
    and row) or `clear 1 1 2 2`. The first 25 count. An invalid line, or one in the other's color,
    does nothing. If both fill a cell, `cold` wins it.

    Each turn pays the change in the picture's value, so a whole game earns the value of its last
    picture. The value is 2 x the share of the letter that is covered, minus three penalties. These
    are 1.5 x the number of blocks outside it as a share of its size (at most 1), the share of
    neighbors of one color, and 0.25 for each builder without a block. The game is StrBuild of
    CoMLRL, without its shift.

    Args:
        letter: the letter to build; by default drawn by the seed.
    """

    seats = tuple(PALETTES)
    returns = (-3.0, 2.0)

    def __init__(self, *, turns: Annotated[int, Field(ge=1, le=4)] = 1, letter: str = "") -> None:
        if letter and letter not in LETTERS:
            raise RecipeError(
                f"environment 'blocks2d' has no letter {letter!r:.20}; it has {''.join(LETTERS)}"
            )
        self.turns, self._letter = turns, letter
        self._target: dict[GridCell, str] = {}
        self._blocks: dict[GridCell, str] = {}
        self._value, self._turns_played = 0.0, 0

    def reset(self, random: Random) -> Step:
        drawn = random.choice([*LETTERS])
        self._target = letter_cells(LETTERS[self._letter or drawn])
        self._blocks, self._value, self._turns_played = {}, 0.0, 0
        return Step(self._observations())

    def step(self, actions: Mapping[str, str]) -> Step:
        self._turns_played += 1
        done = {seat: self._build(seat, actions[seat]) for seat in self.seats}
        values = self._values()
        value = (
            2 * values["cover"]
            - 1.5 * values["extra"]
            - values["neighbors"]
            - 0.25 * (len(self.seats) - len(self._builders()))
        )
        gained, self._value = value - self._value, value
        solved = value == self.returns[1]
        summary = ", ".join(f"{seat} gives {number} commands" for seat, number in done.items())
        over = solved or self._turns_played == self.turns
        seen = {} if over else self._observations()
        return Step(seen, gained, solved, f"{summary}; {value:.2f} so far", values)

    def render(self) -> str:
        return f"{draw_cells(self._target)}\n\n{self._draw_picture()}"

    def moves(self) -> Mapping[str, Sequence[str]]:
        """Return pictures that a builder may make of its part of the letter."""
        if self._turns_played == self.turns or self._value == self.returns[1]:
            return {}
        legal = {}
        for n, (seat, (one, other)) in enumerate(PALETTES.items()):
            half = [(x, y) for x, y in sorted(self._target) if (y > 3) == bool(n)]
            lines = [f"fill {one if (x + y) % 2 else other} {x} {y} {x} {y}" for x, y in half]
            legal[seat] = [*lines[:1], "clear 1 1 1 1", "\n".join(lines)]
        return legal

    def _build(self, seat: str, text: str) -> int:
        """Follow the commands in an answer and return their number."""
        done = 0
        for line in text[:MAX_CHARACTERS].splitlines():
            words = " ".join(line.split()).lower().rstrip(".")
            filled, cleared = _FILL_COMMAND.fullmatch(words), _CLEAR_COMMAND.fullmatch(words)
            is_fill = filled is not None and filled[1] in PALETTES[seat]
            if not (is_fill or cleared) or done == MAX_COMMANDS:
                continue
            done += 1
            for cell in rectangle_cells(*map(int, (filled or cleared).groups()[-4:])):  # type: ignore[union-attr]
                if filled:
                    self._blocks[cell] = filled[1]
                else:
                    self._blocks.pop(cell, None)
        return done

    def _builders(self) -> set[str]:
        colors = set(self._blocks.values())
        return {seat for seat, palette in PALETTES.items() if colors.intersection(palette)}

    def _values(self) -> dict[str, float]:
        """Return the shares from which the reward is computed."""
        size, placed = len(self._target), set(self._blocks)
        pairs = [
            self._blocks[x, y] == self._blocks[other]
            for x, y in placed
            for other in ((x + 1, y), (x, y + 1))
            if other in placed
        ]
        return {
            "cover": len(placed & self._target.keys()) / size,
            "extra": min(1.0, len(placed - self._target.keys()) / size),
            "neighbors": sum(pairs) / len(pairs) if pairs else 0.0,
        }

    def _observations(self) -> dict[str, Observation]:
        target, built = draw_cells(self._target), self._draw_picture()
        return {
            seat: Observation(
                f"Build this of blocks:\n{target}\nSo far:\n{built}\nYour colours:"
                f" {', '.join(palette)}.",
                target=target,
                built=built,
                colors=[*palette],
            )
            for seat, palette in PALETTES.items()
        }

    def _draw_picture(self) -> str:
        return draw_cells({cell: color[0] for cell, color in self._blocks.items()})


def letter_cells(picture: str) -> dict[GridCell, str]:
    """Return the marks of a letter's picture, by (column, row) from 1."""
    rows = enumerate(picture.split(), start=1)
    return {(x, y): mark for y, row in rows for x, mark in enumerate(row, 1) if mark == "#"}


def rectangle_cells(x1: int, y1: int, x2: int, y2: int) -> list[GridCell]:
    """Return all cells of the rectangle between two opposite corners."""
    columns = range(min(x1, x2), max(x1, x2) + 1)
    return [(x, y) for x in columns for y in range(min(y1, y2), max(y1, y2) + 1)]


def draw_cells(marks: Mapping[GridCell, str]) -> str:
    """Return cells as text, each shown by its mark."""
    places = range(1, SIZE + 1)
    return "\n".join("".join(marks.get((x, y), ".") for x in places) for y in places)
