"""Tables of numbers with intervals, for terminals, notebooks and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

from collab.wording import align_rows, format_cost

CellForm = Literal["share", "points"]

NO_VALUE = "-"


@dataclass(frozen=True)
class TableCell:
    """A table's cell: a string, and the values that the report draws for it."""

    text: str
    sign: int = 0
    """1 or -1 if an interval is entirely above or below 0."""
    interval: str = ""
    """The interval in words, unless `text` has it."""
    pair: str = ""
    """The numbers of two episodes to compare, e.g. `3/17`."""
    whisker: tuple[float, ...] = ()
    """Lower limit, mean and upper limit in percent of the scale, or () if they are not drawn."""

    @property
    def tone(self) -> str:
        """CSS class: `good` or `bad` for a change of certain sign, otherwise empty."""
        return {1: "good", -1: "bad"}.get(self.sign, "")


TableRow = Sequence[TableCell]
"""Cells of a row, with its title first."""


@dataclass(frozen=True)
class ResultTable:
    """A table of results, for terminals and for the report."""

    title: str
    columns: list[str]
    """Headings of all columns, including that of the row titles."""
    rows: Sequence[TableRow]
    note: str = ""

    def as_lines(self) -> Iterator[str]:
        """Yield the title, and the table as lines of text."""
        yield self.title
        yield from align_rows(self._texts(), [n > 0 for n in range(len(self.columns))])

    def as_html(self) -> str:
        rows = ("".join(f"<td>{escape(text)}</td>" for text in row) for row in self._texts())
        return f"<p>{escape(self.title)}</p><table>{''.join(f'<tr>{r}</tr>' for r in rows)}</table>"

    def _texts(self) -> list[list[str]]:
        return [self.columns, *([cell.text for cell in row] for row in self.rows)]


def make_table(
    title: str, columns: Sequence[str], rows: Sequence[TableRow], note: str = ""
) -> ResultTable:
    """Return a table. Columns without any content are left out."""
    filled = [
        (name, column)
        for name, column in zip(columns, zip(*rows, strict=True), strict=True)
        if any(cell.text != NO_VALUE for cell in column)
    ]
    cells = [*zip(*(column for _, column in filled), strict=True)]
    return ResultTable(title, [name for name, _ in filled], [*cells], note)


_COUNT_KEYS = ("responses", "prompt_tokens", "new_tokens")


def agents_table(
    title: str, usage: Mapping[str, Mapping[str, Any]], models: Mapping[str, str]
) -> ResultTable:
    """Return a row per agent: its model, and its tokens and cost, as in a run's summary."""
    rows = []
    for name in dict.fromkeys((*models, *usage)):
        counts = usage.get(name)
        texts = [f"{counts[key]:,}" if counts else NO_VALUE for key in _COUNT_KEYS]
        cost = format_cost(counts["cost"] if counts else None)
        rows.append([*map(text_cell, (name, models.get(name) or NO_VALUE, *texts, cost))])
    columns = ["Agent", "Model", "Responses", "Prompt tokens", "New tokens", "Cost"]
    return make_table(title, columns if rows else [], rows)


def text_cell(text: object, pair: str = "") -> TableCell:
    return TableCell(str(text), pair=pair)


def mean_cell(
    mean: float,
    limits: tuple[float, float] | None,
    form: CellForm,
    *,
    change: bool = False,
    largest: float | None = None,
) -> TableCell:
    """Return a mean with its interval. A `change` has a sign, and a color if the sign is certain.

    On a page, the scale of the interval ends at `largest`, the largest value.
    """
    text = format_value(mean, form, signed=change)
    if limits is None:
        return TableCell(text)
    low, high = (format_value(end, form, unit=False) for end in limits)
    return with_whisker(
        TableCell(text, interval=f"{low} to {high}"), mean, limits, largest, change=change
    )


def with_whisker(
    cell: TableCell,
    mean: float,
    limits: tuple[float, float],
    largest: float | None,
    *,
    change: bool,
) -> TableCell:
    """Return the cell with its interval on a scale from 0 to `largest`.

    For a `change`, the scale is around 0, and the cell has a sign.
    """
    sign = (limits[0] > 0) - (limits[1] < 0) if change else 0
    if not largest:
        return replace(cell, sign=sign)
    least = -largest if change else 0.0
    shares = ((value - least) / (largest - least) for value in (limits[0], mean, limits[1]))
    whisker = tuple(round(100 * min(1.0, max(0.0, share)), 1) for share in shares)
    return replace(cell, sign=sign, whisker=whisker)


def format_value(value: float, form: CellForm, *, signed: bool = False, unit: bool = True) -> str:
    """Return a share in percent, or points with two digits, as text. `signed` adds a plus sign."""
    text = f"{100 * value:.1f}" if form == "share" else f"{value:.2f}"
    text = text.removeprefix("-") if float(text) == 0 else text
    plus = "+" if signed and float(text) > 0 else ""
    return plus + text.replace("-", "−") + (" %" if form == "share" and unit else "")
