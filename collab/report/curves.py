"""Makes panels of curves from the metrics of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, stdev

from collab.report.cohorts import Cohort
from collab.report.panels import FAMILIES, MetricFamily, Panel, Series, bounded, mark_equal, most_of
from collab.report.runs import Row, names_of_parts

MOST_POINTS = 400
"""Points of one curve; more steps than that are averaged in equal stretches."""

SMOOTHED_FROM = 40
"""Points from which a running mean is drawn over the curve itself."""

Curve = dict[float, float]
"""A metric by step."""


@dataclass(frozen=True)
class CurveLine:
    """One metric of one cohort."""

    key: str
    label: str
    short: str
    cohort: Cohort
    color: int

    def curves(self, key: str) -> list[Curve]:
        """The curve of each run that has the metric."""
        curves = [_curve(run.steps, key) for run in self.cohort.runs]
        return [curve for curve in curves if curve]


def training_panels(cohorts: Sequence[Cohort]) -> list[Panel]:
    """Every family of metrics that some run has."""
    runs = [run for cohort in cohorts for run in cohort.runs]
    keys = list(dict.fromkeys(key for run in runs for row in run.steps for key in row))
    shown = names_of_parts(runs)
    return [panel for family in FAMILIES for panel in _panels(family, keys, cohorts, shown)]


def _panels(
    family: MetricFamily, keys: Sequence[str], cohorts: Sequence[Cohort], shown: Mapping[str, str]
) -> Iterator[Panel]:
    """`shown` are names that rewards give their metrics."""
    matching = {key: name for key in keys if (name := family.match(key)) is not None}
    if len(matching) < 1 + family.several:
        return
    if family.stacked:
        for cohort in cohorts:
            yield _stack(family, matching, cohort, named=len(cohorts) > 1)
    elif family.split or len(cohorts) > 1:
        for key, name in matching.items():
            lines = [CurveLine(key, c.label, "", c, number) for number, c in enumerate(cohorts)]
            title = shown.get(key) or _title(family, name)
            yield _panel(title, family, lines, name)
    else:
        lines = [
            CurveLine(key, _words(name) or family.title, _words(name), cohorts[0], number)
            for number, (key, name) in enumerate(matching.items())
        ]
        yield _panel(family.title, family, lines)


def _title(family: MetricFamily, name: str) -> str:
    if family.split or not name:
        return _words(name) or family.title
    return f"{family.title}: {_words(name)}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _panel(title: str, family: MetricFamily, lines: Sequence[CurveLine], name: str = "") -> Panel:
    series = [series for line in lines for series in _series(line, family.band)]
    panel = Panel(title, family.section, series, family.unit, _note(family, lines, series))
    runs = [run for cohort in {id(line.cohort): line.cohort for line in lines}.values()
            for run in cohort.runs]  # fmt: skip
    most = most_of(family.reach, family.unit, name, runs)
    return mark_equal(bounded(panel, most), merge=len({line.key for line in lines}) > 1)


def _note(family: MetricFamily, lines: Sequence[CurveLine], series: Sequence[Series]) -> str:
    """A note on the metric, the thin lines and the bands."""
    seeds = any(len(line.cohort.runs) > 1 for line in lines)
    notes = [family.note] if family.note else []
    if seeds:
        notes.append("Band: one standard deviation across seeds; thin: each seed.")
    if family.band and any(len(line.cohort.runs) == 1 for line in lines):
        notes.append("Band: one standard deviation of the step's episodes.")
    if any(len(line.x) > SMOOTHED_FROM for line in series):
        notes.append("Running means." if seeds else "Thin: each step; bold: running mean.")
    return " ".join(notes)


def _series(line: CurveLine, band: str) -> Iterator[Series]:
    curves = line.curves(line.key)
    if not curves:
        return
    smooth = max(map(len, curves)) > SMOOTHED_FROM
    if len(curves) == 1:
        spread = next(iter(line.curves(band)), {}) if band else {}
        if smooth:
            yield _drawn(line, curves[0], style="thin")
            curves, spread = [_running_mean(curves[0])], _running_mean(spread)
        yield _drawn(line, curves[0], spread)
        return
    curves = [_running_mean(curve) for curve in curves] if smooth else curves
    for curve in curves:
        yield _drawn(line, curve, style="thin")
    yield _drawn(line, _across(curves), _spread_across(curves))


def _drawn(
    line: CurveLine, curve: Curve, spread: Curve | None = None, style: str = "line"
) -> Series:
    x = list(curve)
    low = [curve[step] - spread[step] for step in x if step in spread] if spread else []
    high = [curve[step] + spread[step] for step in x if step in spread] if spread else []
    banded = len(low) == len(x)
    return Series(
        label=line.label,
        short=line.short,
        color=line.color,
        x=x,
        y=list(curve.values()),
        low=low if banded else [],
        high=high if banded else [],
        style="thin" if style == "thin" else "line",
    )


def _stack(family: MetricFamily, matching: dict[str, str], cohort: Cohort, *, named: bool) -> Panel:
    series = []
    for number, (key, name) in enumerate(matching.items()):
        shares = [_curve(run.steps, key, absent=0.0) for run in cohort.runs if run.steps]
        mean = _across(shares)
        if any(mean.values()):
            x, y = list(mean), list(mean.values())
            series.append(Series(_words(name), _words(name), number, x, y))
    title = f"{family.title}: {cohort.label}" if named else family.title
    return Panel(title, family.section, series, family.unit, stacked=True)


def _curve(rows: Sequence[Row], key: str, absent: float | None = None) -> Curve:
    values = {row["step"]: row.get(key, absent) for row in rows}
    return _thinned({step: value for step, value in values.items() if value is not None})


def _thinned(curve: Curve) -> Curve:
    """At most MOST_POINTS: means over equal stretches, each at its last step."""
    size = ceil(len(curve) / MOST_POINTS)
    if size <= 1:
        return curve
    steps, values = list(curve), list(curve.values())
    starts = range(0, len(steps), size)
    return {steps[min(n + size, len(steps)) - 1]: fmean(values[n : n + size]) for n in starts}


def _across(curves: Sequence[Curve]) -> Curve:
    """The mean at the steps that every run has."""
    return {step: fmean(curve[step] for curve in curves) for step in _common(curves)}


def _spread_across(curves: Sequence[Curve]) -> Curve:
    return {step: stdev(curve[step] for curve in curves) for step in _common(curves)}


def _common(curves: Sequence[Curve]) -> list[float]:
    return [step for step in curves[0] if all(step in curve for curve in curves)] if curves else []


def _running_mean(curve: Curve) -> Curve:
    """The mean over a centred window of a tenth of the curve; shorter at its ends."""
    values, half = list(curve.values()), len(curve) // 20
    return {step: fmean(values[max(0, n - half) : n + half + 1]) for n, step in enumerate(curve)}
