"""Tables of numbers with intervals, which print as text and HTML and are drawn on pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal

Form = Literal["share", "points"]

NONE = "-"


@dataclass(frozen=True)
class IntervalBar:
    """An interval on its column's scale, from 0 to 100."""

    low: float
    at: float
    high: float
    zero: float | None


@dataclass(frozen=True)
class TableCell:
    text: str
    sign: int = 0
    """1 and -1 where an interval lies wholly above or below 0."""
    interval: str = ""
    """The interval in words, where `text` leaves it out."""
    values: tuple[float, float, float] | None = None
    """Low, mean and high."""
    most: float = 0.0
    """The scale of the interval's bar starts at 0 and reaches at least this far."""
    bar: IntervalBar | None = None
    pair: str = ""
    """The numbers of two episodes to compare, e.g. `3/17`."""

    @property
    def tone(self) -> str:
        return tone_of(self.sign)


class TableRow(tuple[TableCell, ...]):
    """The cells of a row; the first one holds its title."""

    __slots__ = ()

    @property
    def title(self) -> str:
        return self[0].text

    @property
    def cells(self) -> tuple[TableCell, ...]:
        return self[1:]


@dataclass(frozen=True)
class ResultTable:
    title: str
    columns: list[str]
    """The heads of all columns, the row titles' among them."""
    rows: list[TableRow]
    note: str = ""

    def as_lines(self) -> Iterator[str]:
        """The table as lines of text, every column as wide as its widest cell."""
        texts = self._texts()
        first, *others = (max(map(len, column)) for column in zip(*texts, strict=True))
        yield self.title
        for title, *cells in texts:
            padded = (f"{text:>{width}}" for text, width in zip(cells, others, strict=True))
            yield "  ".join((f"{title:<{first}}", *padded)).rstrip()

    def as_html(self) -> str:
        """The table as HTML."""
        rows = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in self._texts())
        return f"<p>{escape(self.title)}</p><table>{''.join(f'<tr>{r}</tr>' for r in rows)}</table>"

    def _texts(self) -> list[list[str]]:
        return [self.columns, *([cell.text for cell in row] for row in self.rows)]


def make_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[TableCell]], note: str = ""
) -> ResultTable:
    """A table without its empty columns; each column draws its intervals on one scale."""
    filled = [
        (name, _scaled(column))
        for name, column in zip(columns, zip(*rows, strict=True), strict=True)
        if any(cell.text != NONE for cell in column)
    ]
    cells = [TableRow(row) for row in zip(*(column for _, column in filled), strict=True)]
    return ResultTable(title, [name for name, _ in filled], cells, note)


def words(text: object, pair: str = "") -> TableCell:
    return TableCell(str(text), pair=pair)


def estimate(
    mean: float, limits: tuple[float, float] | None, form: Form, *, change: bool = False
) -> TableCell:
    """A mean with its interval; a `change` has a sign, and a colour where its sign is certain."""
    text = show(mean, form, signed=change)
    if limits is None:
        return TableCell(text)
    low, high = limits
    most = 1.0 if form == "share" and not change else 0.0
    sign = sign_of(limits) if change else 0
    return TableCell(text, sign, spanned(limits, form), (low, mean, high), most)


def sign_of(limits: tuple[float, float]) -> int:
    """1 or -1 for an interval wholly above or below 0, else 0."""
    return (limits[0] > 0) - (limits[1] < 0)


def tone_of(sign: int) -> str:
    return {1: "good", -1: "bad"}.get(sign, "")


def spanned(limits: tuple[float, float], form: Form) -> str:
    """An interval in words."""
    low, high = (show(end, form, unit=False) for end in limits)
    return f"{low} to {high}"


def show(value: float, form: Form, *, signed: bool = False, unit: bool = True) -> str:
    text = f"{100 * value:.1f}" if form == "share" else f"{value:.2f}"
    text = text.removeprefix("-") if float(text) == 0 else text
    plus = "+" if signed and float(text) > 0 else ""
    return plus + text.replace("-", "−") + (" %" if form == "share" and unit else "")


def _scaled(column: Sequence[TableCell]) -> list[TableCell]:
    known = [(cell.values, cell.most) for cell in column if cell.values]
    if not known:
        return list(column)
    least = min(0.0, *(values[0] for values, _ in known))
    most = max(0.0, *(max(values[2], reach) for values, reach in known))
    size = most - least or 1.0

    def place(value: float) -> float:
        return round(100 * (value - least) / size, 2)

    def draw(low: float, at: float, high: float) -> IntervalBar:
        return IntervalBar(place(low), place(at), place(high), place(0.0) if least < 0 else None)

    return [replace(cell, bar=draw(*cell.values)) if cell.values else cell for cell in column]
