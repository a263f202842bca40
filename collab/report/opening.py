"""The opening of a report: one sentence, and cards with plots of means and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10

from collab.evaluation.results import Estimate
from collab.evaluation.table import Form, show
from collab.wording import counted


@dataclass(frozen=True)
class OpeningCard:
    """One metric: of training before and after it, of teams side by side."""

    title: str
    plots: list[Plot]
    before: str = ""
    after: str = ""
    most: str = ""
    """The largest possible value, in words."""
    gain: str = ""
    tone: str = ""
    """CSS class of a certain gain or loss."""


@dataclass(frozen=True)
class Opening:
    sentence: str = ""
    """Empty if nothing was scored."""
    cards: list[OpeningCard] = field(default_factory=list)
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.sentence or self.cards)


def joined(openings: Sequence[Opening]) -> Opening:
    """Several as one."""
    filled = [opening for opening in openings if opening]
    return Opening(
        " ".join(o.sentence for o in filled if o.sentence),
        [card for opening in filled for card in opening.cards],
        " ".join(dict.fromkeys(o.note for o in filled if o.note)),
    )


def in_words(value: float, form: Form, most: float | None = None) -> str:
    """A value within a sentence: shares as whole percents, points with their maximum.

    A share is rounded to nothing or all only where it is that.
    """
    if form == "points":
        return show(value, form) + (f" of {show(most, form)}" if most else "")
    whole = int(100 * value + 0.5)
    if whole in (0, 100) and value != whole / 100:
        return show(value, form)
    return f"{whole} %"


def size_of(problems: int, samples: int | None, seeds: int = 1) -> str:
    """Numbers of problems, samples and seeds, for parentheses."""
    return ", ".join(_sizes(problems, samples, seeds))


def _sizes(problems: int, samples: int | None, seeds: int) -> Iterator[str]:
    yield counted(problems, "problem")
    if samples:
        yield f"{counted(samples, 'sample')} each"
    if seeds > 1:
        yield f"mean of {seeds} seeds"


@dataclass(frozen=True)
class PlotRow:
    """One team, or one way to sample it."""

    label: str
    values: list[Estimate]
    """One value, or one from before training, which is drawn hollow, and one from after it."""
    text: str
    """The value in words; of two, from the first to the second."""
    interval: str = ""
    tone: str = ""


@dataclass(frozen=True)
class PlotMark:
    """A dot with its whisker; all places go from 0 to 100 along the scale."""

    low: float
    at: float
    high: float
    before: bool


@dataclass(frozen=True)
class Tick:
    place: float
    text: str


@dataclass(frozen=True)
class DrawnRow:
    """A row as it is drawn."""

    row: PlotRow
    marks: list[PlotMark]
    text: str
    """The row's content in words."""


@dataclass(frozen=True)
class Plot:
    title: str
    rows: list[DrawnRow]
    ticks: list[Tick]
    zero: float | None
    """The place of zero, in plots of differences or of negative values."""


def make_plot(
    title: str,
    rows: Sequence[PlotRow],
    form: Form,
    most: float | None = None,
    *,
    change: bool = False,
) -> Plot:
    """A plot from 0 to `most`, and as far as the intervals reach: all of its rows on one scale.

    Of a `change`, zero is marked wherever it lies.
    """
    values = [value for row in rows for value in row.values]
    ends = [end for value in values for end in (value.mean, *value.limits)]
    least, largest = min(0.0, *ends), max(0.0, *ends) if most is None else max(most, *ends)
    ticks = _ticks(least, largest if largest > least else least + 1.0)
    start, size = min(least, ticks[0]), max(largest, ticks[-1]) - min(least, ticks[0])
    if most is not None and most >= max(ends) and least == 0:
        ticks, size = [tick for tick in ticks if tick <= most], most

    def place(value: float) -> float:
        return round(100 * (value - start) / size, 2)

    drawn = [
        DrawnRow(
            row,
            [
                PlotMark(place(v.low), place(v.mean), place(v.high), before=v is not row.values[-1])
                for v in row.values
            ],
            f"{row.label}: {row.text}" + (f", 95 % {row.interval}" if row.interval else ""),
        )
        for row in rows
    ]
    digits = _digits(form, ticks)
    shown = [Tick(place(tick), _label(tick, form, digits)) for tick in ticks]
    return Plot(title, drawn, shown, place(0.0) if change or start < 0 else None)


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers, about four, that reach from end to end."""
    rough = (most - least) / 4
    power = float(f"1e{floor(log10(rough))}")
    step = next(f * power for f in (1.0, 2.0, 2.5, 5.0, 10.0) if f * power >= rough * 0.999)
    first, last = floor(least / step + 1e-9), ceil(most / step - 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _digits(form: Form, ticks: Sequence[float]) -> int:
    """The decimals that the finest tick needs."""
    scale = 100 if form == "share" else 1
    return max(len(f"{scale * tick:.10g}".partition(".")[2]) for tick in ticks)


def _label(value: float, form: Form, digits: int) -> str:
    text = f"{(100 if form == 'share' else 1) * value:.{digits}f}".replace("-", "−")
    return f"{text} %" if form == "share" else text
