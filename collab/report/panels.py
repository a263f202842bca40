"""Panels of curves as data: metric families, curves and axis limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean, stdev
from typing import Literal

from collab.records import Score
from collab.report.runs import Cohort, Run, largest_return, metric_titles
from collab.rewards.library import MEASURES
from collab.runs import metric_names as names
from collab.trainers.training.alarms import StepMetrics

Unit = Literal["number", "share", "seconds", "count"]
Bound = Literal["open", "return", "reward", "part"]
LineStyle = Literal["line", "thin", "points"]


@dataclass(frozen=True)
class Series:
    """One curve. `low` and `high` bound its band, or its points' intervals."""

    label: str
    short: str
    """The label in the panel's legend. The page's legend explains the colors."""
    color: int
    x: list[float]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    style: LineStyle = "line"
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One chart of a report."""

    title: str
    section: str
    series: list[Series]
    unit: Unit = "number"
    note: str = ""
    """The meaning of bands and intervals."""
    stacked: bool = False
    """Shares of one whole, drawn on top of each other."""
    along: Literal["step", "tokens"] = "step"
    """The x axis."""
    most: float | None = None
    """The largest possible value: the axis ends there, and a line marks it."""


@dataclass(frozen=True)
class MetricFamily:
    """Metrics that are drawn together: those whose key matches a pattern with `*`."""

    title: str
    section: str
    key: str
    unit: Unit = "number"
    band: str = ""
    """The metric that gives the spread around `key`."""
    split: bool = False
    """True if each metric gets its own panel, named by the text that `*` matches."""
    stacked: bool = False
    several: bool = False
    """True if the panel is drawn only for several such metrics."""
    note: str = ""
    """Explanation of the metric, if its name needs one."""
    bound: Bound = "open"
    """The upper bound: the largest return or reward of a turn, or the weight of the part."""


RETURN_SECTION = "Return"
PARTS_SECTION = "Parts of the reward"
TEAM_SECTION = "Agents"
LEARNING_SECTION = "Optimization"
COST_SECTION = "Time and memory"

FAMILIES = (
    MetricFamily(
        "Joint return in training",
        RETURN_SECTION,
        names.RETURN_MEAN,
        band=names.RETURN_STD,
        bound="return",
    ),
    MetricFamily("Solved in training", RETURN_SECTION, names.SOLVED, "share"),
    MetricFamily("Solved by turn", RETURN_SECTION, names.SOLVED_AFTER_TURN, "share", several=True),
    *(MetricFamily(m.title, RETURN_SECTION, m.metric, "share") for m in MEASURES if m.metric),
    MetricFamily("Reward by turn", RETURN_SECTION, names.REWARD, several=True, bound="reward"),
    MetricFamily(
        "Return of each agent, if they differ", RETURN_SECTION, names.AGENT_RETURN, several=True
    ),
    MetricFamily("Points", PARTS_SECTION, names.POINTS, split=True, bound="part"),
    MetricFamily("Values", PARTS_SECTION, names.VALUE, "share", split=True),
    MetricFamily("Length of a response, tokens", TEAM_SECTION, names.LENGTH),
    MetricFamily("Entropy, nats per token", TEAM_SECTION, names.ENTROPY),
    MetricFamily("Truncated responses", TEAM_SECTION, names.TRUNCATED, "share"),
    MetricFamily("Responses without an artifact", TEAM_SECTION, names.EMPTY, "share"),
    MetricFamily(
        "Share of the reward that an agent's own responses decide",
        TEAM_SECTION,
        names.CREDIT_OWN,
        "share",
        note="Share of the reward's variance within a task. The rest depends on other agents, or on"
        " combinations of answers.",
    ),
    MetricFamily(
        "Reward that responses decide only together",
        TEAM_SECTION,
        names.CREDIT_INTERACTION,
        "share",
    ),
    MetricFamily(
        "Influence on the reward",
        TEAM_SECTION,
        names.CREDIT_INFLUENCE,
        "share",
        note="The share of the reward's variance within a task that an agent's responses decide,"
        " by themselves or together with others'.",
    ),
    MetricFamily("Reward that an answer added", TEAM_SECTION, names.CREDIT_CONTRIBUTION),
    MetricFamily("KL from the reference, nats per token", TEAM_SECTION, names.KL),
    MetricFamily("Gradient norm", LEARNING_SECTION, names.GRADIENT_NORM),
    MetricFamily("Spread of returns in a group", LEARNING_SECTION, names.RETURN_SPREAD),
    MetricFamily("Dead groups", LEARNING_SECTION, names.DEAD_GROUPS, "share"),
    MetricFamily("Episodes dropped", LEARNING_SECTION, names.DROPPED, "share"),
    MetricFamily("Flagged episodes", LEARNING_SECTION, names.FLAGGED, "share"),
    MetricFamily(
        "Sampler against trainer, nats per token",
        LEARNING_SECTION,
        names.MISMATCH,
        note="Mean difference of the sampler's and the trainer's log-probabilities.",
    ),
    MetricFamily(
        "Tokens outside the support",
        LEARNING_SECTION,
        names.OUTSIDE_SUPPORT,
        "share",
        note="Sampled tokens that the trainer's top_p or top_k exclude, because of rounding.",
    ),
    MetricFamily("Tokens clipped", LEARNING_SECTION, names.CLIPPED, "share"),
    MetricFamily("Learning rate", LEARNING_SECTION, names.LEARNING_RATE),
    MetricFamily("Share of time", COST_SECTION, names.TIME, "share", stacked=True),
    MetricFamily(
        "Wait for scores of combinations, seconds per step",
        COST_SECTION,
        names.COMBINATIONS_WAITED,
        "seconds",
        note="Time to score combinations that did not overlap with sampling.",
    ),
    MetricFamily("Seconds per step", COST_SECTION, names.SECONDS, "seconds"),
    MetricFamily("Tokens per second", COST_SECTION, names.TOKENS_PER_SECOND, "count"),
    MetricFamily("Peak memory, GB", COST_SECTION, names.MEMORY),
)


def maximum_of(bound: Bound, unit: Unit, name: str, runs: Sequence[Run]) -> float | None:
    """Return the largest value that a metric can have, or None if it has no bound.

    Args:
        name: name of the part, for a part of the reward.
    """
    if bound == "return":
        bounds = [row[names.RETURN_MAXIMUM] for run in runs for row in run.steps
                 if names.RETURN_MAXIMUM in row]  # fmt: skip
        bounds += [largest for run in runs if (largest := largest_return(run)) is not None]
    elif bound == "reward":
        bounds = [score.maximum for score in _scores(runs)]
    elif bound == "part":
        bounds = [part.weight for s in _scores(runs) for part in s.parts if part.name == name]
    else:
        bounds = [1.0] if unit == "share" else []
    largest = max(bounds, default=0.0)
    return largest if largest > 0 else None


def _scores(runs: Sequence[Run]) -> list[Score]:
    episodes = [episode for run in runs for episode in run.episodes]
    return [turn.score for episode in episodes for turn in episode.turns if turn.score]


def limit_axis(panel: Panel, largest: float | None) -> Panel:
    """Return the panel with its axis up to `largest`, and its bands within what is possible.

    If a value lies outside [0, `largest`], that end is left open.
    """
    values = [value for line in panel.series for value in line.y]
    if largest is not None and max(values, default=0.0) > largest + 1e-9:
        largest = None
    floor = 0.0 if min(values, default=0.0) >= 0 else -inf
    ceiling = inf if largest is None else largest

    def cut(values: Sequence[float]) -> list[float]:
        return [min(ceiling, max(floor, value)) for value in values]

    series = [replace(line, low=cut(line.low), high=cut(line.high)) for line in panel.series]
    return replace(panel, most=largest, series=series)


MIN_SMOOTHED_POINTS = 40
"""Minimum number of points for a running mean to be drawn over the curve."""

Curve = dict[float, float]
"""A metric by step."""


@dataclass(frozen=True)
class CurveLine:
    """A metric of one cohort, drawn as a line."""

    key: str
    label: str
    short: str
    cohort: Cohort
    color: int

    def curves(self, key: str) -> list[Curve]:
        """Return the curve of each run that has the metric."""
        curves = [_curve(run.steps, key) for run in self.cohort.runs]
        return [curve for curve in curves if curve]


def training_panels(cohorts: Sequence[Cohort]) -> list[Panel]:
    """Return the panels of every family of metrics that some run has."""
    runs = [run for cohort in cohorts for run in cohort.runs]
    keys = list(dict.fromkeys(key for run in runs for row in run.steps for key in row))
    titles = metric_titles(runs)
    return [panel for family in FAMILIES for panel in _panels(family, keys, cohorts, titles)]


def _panels(
    family: MetricFamily, keys: Sequence[str], cohorts: Sequence[Cohort], titles: Mapping[str, str]
) -> Iterator[Panel]:
    """Yield panels of the metrics. `titles` holds the metric names that rewards define."""
    matching = {
        key: name for key in keys if (name := names.match_pattern(family.key, key)) is not None
    }
    if len(matching) < 1 + family.several:
        return
    if family.stacked:
        for cohort in cohorts:
            yield _stacked_panel(family, matching, cohort, named=len(cohorts) > 1)
    elif family.split or len(cohorts) > 1:
        for key, name in matching.items():
            lines = [CurveLine(key, c.label, "", c, number) for number, c in enumerate(cohorts)]
            title = titles.get(key) or _title(family, name)
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
    largest = maximum_of(family.bound, family.unit, name, runs)
    return limit_axis(panel, largest)


def _note(family: MetricFamily, lines: Sequence[CurveLine], series: Sequence[Series]) -> str:
    """Return a note on the metric, the thin lines and the bands."""
    seeds = any(len(line.cohort.runs) > 1 for line in lines)
    notes = [family.note] if family.note else []
    if seeds:
        notes.append("Band: one standard deviation across seeds; thin: each seed.")
    if family.band and any(len(line.cohort.runs) == 1 for line in lines):
        notes.append("Band: one standard deviation of the step's episodes.")
    if any(len(line.x) > MIN_SMOOTHED_POINTS for line in series):
        notes.append("Running means." if seeds else "Thin: each step; bold: running mean.")
    return " ".join(notes)


def _series(line: CurveLine, band: str) -> Iterator[Series]:
    curves = line.curves(line.key)
    if not curves:
        return
    smooth = max(map(len, curves)) > MIN_SMOOTHED_POINTS
    if len(curves) == 1:
        spread = next(iter(line.curves(band)), {}) if band else {}
        if smooth:
            yield _make_series(line, curves[0], style="thin")
            curves, spread = [_running_mean(curves[0])], _running_mean(spread)
        yield _make_series(line, curves[0], spread)
        return
    curves = [_running_mean(curve) for curve in curves] if smooth else curves
    for curve in curves:
        yield _make_series(line, curve, style="thin")
    spread = {step: stdev(curve[step] for curve in curves) for step in _common_steps(curves)}
    yield _make_series(line, _mean_curve(curves), spread)


def _make_series(
    line: CurveLine, curve: Curve, spread: Curve | None = None, style: LineStyle = "line"
) -> Series:
    band = spread if spread and spread.keys() >= curve.keys() else {}
    return Series(
        label=line.label,
        short=line.short,
        color=line.color,
        x=list(curve),
        y=list(curve.values()),
        low=[value - band[step] for step, value in curve.items() if band],
        high=[value + band[step] for step, value in curve.items() if band],
        style=style,
    )


def _stacked_panel(
    family: MetricFamily, matching: dict[str, str], cohort: Cohort, *, named: bool
) -> Panel:
    series = []
    for number, (key, name) in enumerate(matching.items()):
        shares = [_curve(run.steps, key, absent=0.0) for run in cohort.runs if run.steps]
        mean = _mean_curve(shares)
        if any(mean.values()):
            x, y = list(mean), list(mean.values())
            series.append(Series(_words(name), _words(name), number, x, y))
    title = f"{family.title}: {cohort.label}" if named else family.title
    return Panel(title, family.section, series, family.unit, stacked=True)


def _curve(rows: Sequence[StepMetrics], key: str, absent: float | None = None) -> Curve:
    values = {row["step"]: row.get(key, absent) for row in rows}
    return {step: value for step, value in values.items() if value is not None}


def _mean_curve(curves: Sequence[Curve]) -> Curve:
    """Return the mean at the steps that every run has."""
    return {step: fmean(curve[step] for curve in curves) for step in _common_steps(curves)}


def _common_steps(curves: Sequence[Curve]) -> list[float]:
    return [step for step in curves[0] if all(step in curve for curve in curves)] if curves else []


def _running_mean(curve: Curve) -> Curve:
    """Return the mean over a centered window of a tenth of the curve, or less at its ends."""
    values, half = list(curve.values()), len(curve) // 20
    return {step: fmean(values[max(0, n - half) : n + half + 1]) for n, step in enumerate(curve)}
