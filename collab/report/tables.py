"""Tables of numbers with intervals, as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Form = Literal["share", "points"]

NONE = "–"


@dataclass(frozen=True)
class Bar:
    """An interval on its column's scale, from 0 to 100."""

    low: float
    at: float
    high: float
    zero: float | None


@dataclass(frozen=True)
class Cell:
    text: str
    interval: str = ""
    tone: str = ""
    values: tuple[float, float, float] | None = None
    """Low, mean and high."""
    most: float = 0.0
    """The scale on which the interval is drawn reaches from 0 at least this far."""
    bar: Bar | None = None
    pair: str = ""
    """The numbers of two episodes that can be compared, e.g. `3/17`."""


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


def make_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = ""
) -> Table:
    """A table of one thing a row; each column's intervals are drawn on one scale."""
    filled = [
        (name, _scaled(column))
        for name, column in zip(columns, zip(*rows, strict=True), strict=True)
        if any(cell.text != NONE for cell in column)
    ]
    cells = [list(row) for row in zip(*(column for _, column in filled), strict=True)]
    return Table(title, [name for name, _ in filled], cells, note)


def words(text: object, pair: str = "") -> Cell:
    return Cell(str(text), pair=pair)


def estimate(
    mean: float, limits: tuple[float, float] | None, form: Form, *, change: bool = False
) -> Cell:
    """A mean with its interval; a `change` has a sign, and a colour where its sign is certain."""
    text = show(mean, form, signed=change)
    if limits is None:
        return Cell(text)
    low, high = limits
    tone = ("good" if low > 0 else "bad" if high < 0 else "") if change else ""
    told = f"{show(low, form, unit=False)} to {show(high, form, unit=False)}"
    most = 1.0 if form == "share" and not change else 0.0
    return Cell(text, told, tone, (low, mean, high), most)


def show(value: float, form: Form, *, signed: bool = False, unit: bool = True) -> str:
    text = f"{100 * value:.1f}" if form == "share" else f"{value:.2f}"
    text = text.removeprefix("-") if float(text) == 0 else text
    plus = "+" if signed and float(text) > 0 else ""
    return plus + text.replace("-", "−") + (" %" if form == "share" and unit else "")


def _scaled(column: Sequence[Cell]) -> list[Cell]:
    known = [(cell.values, cell.most) for cell in column if cell.values]
    if not known:
        return list(column)
    least = min(0.0, *(values[0] for values, _ in known))
    most = max(0.0, *(max(values[2], reach) for values, reach in known))
    size = most - least or 1.0

    def place(value: float) -> float:
        return round(100 * (value - least) / size, 2)

    def draw(low: float, at: float, high: float) -> Bar:
        return Bar(place(low), place(at), place(high), place(0.0) if least < 0 else None)

    return [replace(cell, bar=draw(*cell.values)) if cell.values else cell for cell in column]
