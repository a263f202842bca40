"""The opening of a report: one sentence, and cards with plots of means and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, log10

from collab.evaluation import intervals
from collab.evaluation.results import Difference, Estimate, Results, work_rows
from collab.evaluation.table import (
    Form,
    ResultTable,
    estimate,
    show,
)
from collab.evaluation.values import estimate_of, task_values
from collab.records import Episode
from collab.report.runs import Run, largest_return
from collab.runs import metric_names as names
from collab.stats import mean
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
    marks: list[PlotMark] = field(default_factory=list)

    @property
    def in_words(self) -> str:
        interval = f", 95 % {self.interval}" if self.interval else ""
        return f"{self.label}: {self.text}{interval}"


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
class Plot:
    title: str
    rows: list[PlotRow]
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
        replace(
            row,
            marks=[
                PlotMark(place(v.low), place(v.mean), place(v.high), before=v is not row.values[-1])
                for v in row.values
            ],
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


TITLES = {
    names.JOINT_RETURN: "return",
    names.RETURN_SHARE: "return, of its maximum",
    names.LAST_REWARD_SHARE: "last turn's reward, of its maximum",
}
ORDER = (
    names.SOLVED,
    names.PASS_AT,
    names.SOLVED_AFTER_TURN,
    names.JOINT_RETURN,
    names.RETURN_SHARE,
    names.LAST_REWARD_SHARE,
    names.BEST_OF,
    names.LEVEL,
)

METHOD = f"95 % intervals: {intervals.METHOD}."
PAIRED = "Differences are paired by problem."

Metrics = Mapping[str, Estimate]

Named = Sequence[tuple[str, Metrics]]
"""The metrics of teams or runs, by their labels."""


def evaluation_opening(results: Results) -> Opening:
    """Show the teams of an evaluation and their differences from the first one: one card per
    metric."""
    if not results.teams:
        return Opening()
    entries = [(team.label, team.metrics) for team in results.teams]
    largest = [team.largest_return or 0.0 for team in results.teams]
    cards = _cards(entries, max(largest), results.differences)
    size = size_of(len(results.tasks), results.samples)
    sentence = _best_of(entries, results.differences)
    return Opening(f"{sentence} ({size})." if sentence else "", cards, f"{METHOD} {PAIRED}")


def evaluation_table(results: Results) -> ResultTable | None:
    """Schemes, speed and costs of the teams."""
    if not results.teams:
        return None
    columns = ["", *(team.label for team in results.teams)]
    size = size_of(len(results.tasks), results.samples)
    note = (
        f"{size}. Speed is measured with the agents running together; new tokens are per episode."
    )
    title = f"Teams on {results.suite}"
    return ResultTable(title, columns, work_rows(results), " ".join([note, *results.notes]))


def run_opening(runs: Sequence[Run]) -> Opening:
    """Runs without training; empty without a score."""
    scored = [(run, metrics) for run in runs if (metrics := _estimates(run))]
    if not scored:
        return Opening()
    alone = len(scored) == 1
    entries = [("mean" if alone else run.name, metrics) for run, metrics in scored]
    largest = max(largest_return(run) or 0.0 for run, _ in scored)
    note = f"Means over problems. {METHOD}"
    if len({frozenset(e.task for e in run.episodes) for run, _ in scored}) > 1:
        note += " The runs played different problems."
    return Opening(
        _run_sentence([run for run, _ in scored], entries), _cards(entries, largest), note
    )


def _run_sentence(runs: Sequence[Run], entries: Named) -> str:
    if len(runs) == 1 and len({episode.task for episode in runs[0].episodes}) == 1:
        return _one_problem(runs[0])
    sizes = []
    for run in runs:
        tasks = {episode.task for episode in run.episodes}
        samples, rest = divmod(len(run.episodes), len(tasks))
        sizes.append(size_of(len(tasks), None if rest else samples))
    sentence = _best_of(entries)
    size = f" ({sizes[0]})" if len(set(sizes)) == 1 else ""
    return f"{sentence}{size}." if sentence else ""


def _one_problem(run: Run) -> str:
    """A sentence on a run of one problem: samples solved, and the return."""
    task, played = run.episodes[0].task, len(run.episodes)
    known = [e.score.solved for e in run.episodes if e.score and e.score.solved is not None]
    returns = [e.joint_return for e in run.episodes if e.joint_return is not None]
    earned = in_words(mean(returns), "points", largest_return(run)) if returns else "nothing"
    measure = "mean return" if played > 1 else "return"
    if not known:
        return f"The team earns a {measure} of {earned} on {task}."
    solves, of = ("solves", f"{sum(known)} of ") if any(known) else ("does not solve", "")
    often = f" in {of}{counted(played, 'sample')}" if played > 1 else ""
    return f"The team {solves} {task}{often}; {measure} {earned}."


def _best_of(entries: Named, differences: Sequence[Difference] = ()) -> str:
    """A sentence on the best team by the first metric, compared with another."""
    metric = next(iter(_metrics([metrics for _, metrics in entries])), None)
    known = [(label, m[metric]) for label, m in entries if metric in m] if metric else []
    if not metric or not known:
        return ""
    share, does = _form(metric) == "share", "earns"
    if metric in (names.SOLVED, names.named(names.PASS_AT, 1)):
        does = "solves"
    what = " of the problems" if does == "solves" else " of the largest return" if share else ""
    label, best = max(known, key=lambda one: one[1].mean)
    first = in_words(best.mean, _form(metric))
    if len(known) == 1:
        return f"The team {does} {first}{what}"
    others = [one for one in known if one[0] != label]
    other, second = others[0] if differences else max(others, key=lambda one: one[1].mean)
    whose = f"{label} {does}" if len(known) == 2 else f"Of {len(known)} teams, {label} {does} most:"
    doubt = "" if _is_sure(metric, label, other, differences) else "; the difference may be chance"
    return f"{whose} {first}{what}, {other} {in_words(second.mean, _form(metric))}{doubt}"


def _is_sure(metric: str, label: str, other: str, differences: Sequence[Difference]) -> bool:
    """True if the interval of the difference leaves out zero, or if there are no pairs."""
    pairs = [d for d in differences if {d.team, d.baseline} == {label, other}]
    change = next((d.metrics[metric] for d in pairs if metric in d.metrics), None)
    return change is None or change.low > 0 or change.high < 0


def _cards(
    entries: Named, largest: float, differences: Sequence[Difference] = ()
) -> list[OpeningCard]:
    cards = []
    for metric in _metrics([metrics for _, metrics in entries]):
        form = _form(metric)
        most = 1.0 if form == "share" else largest or None
        rows = [_row(label, m[metric], form) for label, m in entries if metric in m]
        title = _title(metric)
        plots = [make_plot(f"{title} by team", rows, form, most)]
        changes = [
            _row(d.team, d.metrics[metric], form, change=True)
            for d in differences
            if metric in d.metrics
        ]
        if changes:
            baseline = differences[0].baseline
            plots.append(make_plot(f"Difference from {baseline}", changes, form, change=True))
        cards.append(
            OpeningCard(title, plots, most=show(most, form) if form == "points" and most else "")
        )
    return cards


def _row(label: str, value: Estimate, form: Form, *, change: bool = False) -> PlotRow:
    cell = estimate(value.mean, value.limits, form, change=change)
    return PlotRow(label, [value], cell.text, cell.interval, cell.tone)


def _title(metric: str) -> str:
    turn = names.matched(names.SOLVED_AFTER_TURN, metric)
    if turn is not None:
        return f"Solved after turn {turn}"
    title = TITLES.get(metric, names.matched(names.LEVEL, metric) or metric)
    return title if "@" in title else title[0].upper() + title[1:]


def _form(metric: str) -> Form:
    return "points" if metric == names.JOINT_RETURN else "share"


def _estimates(run: Run) -> dict[str, Estimate]:
    groups: dict[str, list[Episode]] = {}
    for episode in run.episodes:
        groups.setdefault(episode.task, []).append(episode)
    return {
        metric: estimate_of(metric, [*by_task.values()], largest_return(run) or 1.0)
        for metric, by_task in task_values(groups, ()).items()
    }


def _metrics(by_entry: Sequence[Metrics]) -> list[str]:
    """The metrics to show, in order, without repeated ones."""
    known = dict.fromkeys(name for metrics in by_entry for name in metrics)
    left_out = {names.SOLVED} if names.named(names.PASS_AT, 1) in known else set()
    if all(m.get(names.LAST_REWARD_SHARE) == m.get(names.RETURN_SHARE) for m in by_entry):
        left_out.add(names.LAST_REWARD_SHARE)
    places = {name: _place(name) for name in known if name not in left_out}
    shown = [name for name, place in places.items() if place is not None]
    best = [names.what_is_best_in(name) for name in shown]
    return sorted(shown, key=lambda name: (places[name], best.index(names.what_is_best_in(name))))


def _place(name: str) -> int | None:
    """The position of a metric in `ORDER`; None if it is not shown."""
    if names.what_is_best_in(name):
        return ORDER.index(names.BEST_OF)
    fits = (n for n, pattern in enumerate(ORDER) if names.matched(pattern, name) is not None)
    return next(fits, None)
