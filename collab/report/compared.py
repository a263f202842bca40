"""Compares teams: the results of an evaluation, or of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collab.evaluation import intervals
from collab.evaluation.compare import estimate_of
from collab.evaluation.results import Difference, Estimate, Results, work_rows
from collab.evaluation.table import (
    Form,
    ResultTable,
    estimate,
    show,
)
from collab.evaluation.values import task_values
from collab.records import Episode
from collab.report.opening import (
    Opening,
    OpeningCard,
    PlotRow,
    in_words,
    make_plot,
    size_of,
)
from collab.report.runs import Run, largest_return
from collab.runs import metric_names as names
from collab.stats import mean
from collab.wording import counted

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
