"""Teams side by side: an evaluation's results, or those of runs as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collab.evaluation import intervals
from collab.evaluation.compare import estimate_of
from collab.evaluation.results import Estimate, Results, TeamResult
from collab.evaluation.values import task_values
from collab.records import Episode
from collab.report.runs import Run, largest_return
from collab.report.tables import (
    NONE,
    Cell,
    Form,
    Table,
    estimate,
    make_side_by_side,
    words,
)
from collab.runs import metric_names as names
from collab.wording import counted

TITLES = {
    names.JOINT_RETURN: "return, points",
    names.RETURN_SHARE: "return",
    names.LAST_REWARD_SHARE: "last turn's reward",
}
ORDER = (
    names.SOLVED,
    names.PASS_AT,
    names.BEST_OF,
    names.LEVEL,
    names.JOINT_RETURN,
    names.RETURN_SHARE,
    names.LAST_REWARD_SHARE,
)

METHOD = f"95 % intervals: {intervals.METHOD}."

Metrics = Mapping[str, Estimate]


def evaluation_tables(results: Results) -> Iterator[Table]:
    """The teams of an evaluation, and their differences from the first one."""
    if not results.teams:
        return
    teams = results.teams
    rows = [
        *_metric_rows([team.metrics for team in teams]),
        [words("return at most"), *(words(_points(team.largest_return)) for team in teams)],
        *_scheme_rows(teams),
        [words("tokens a second"), *(words(_speed(team)) for team in teams)],
        [words("seconds a response"), *(words(_seconds(team)) for team in teams)],
        [words("failed"), *(words(team.failed or NONE) for team in teams)],
    ]
    size = f"{counted(len(results.tasks), 'problem')}, {counted(results.samples, 'sample')} each"
    note = f"{size}. {METHOD}"
    note += " Speed is measured with the agents running together."
    names = [team.label for team in teams]
    title = f"Teams on {results.suite}"
    yield make_side_by_side(title, ["", *names], rows, " ".join([note, *results.notes]))
    if results.differences:
        found = results.differences
        rows = list(_metric_rows([difference.metrics for difference in found], change=True))
        names = [difference.team for difference in found]
        title = f"Difference from {found[0].baseline}"
        yield make_side_by_side(title, ["", *names], rows, f"Paired by problem. {METHOD}")


def run_table(runs: Sequence[Run]) -> Table | None:
    """Runs without training, as they are; None where there is no score to compare."""
    scored = [(run, found) for run in runs if (found := _estimates(run))]
    if not scored:
        return None
    counts = [words(len({e.task for e in run.episodes})) for run, _ in scored]
    largest = [words(_points(largest_return(run))) for run, _ in scored]
    rows = [[words("problems"), *counts], *_metric_rows([found for _, found in scored])]
    rows.append([words("return at most"), *largest])
    note = f"Means over problems. {METHOD}"
    if len({frozenset(e.task for e in run.episodes) for run, _ in scored}) > 1:
        note += " The runs are of different problems."
    title = "Runs side by side" if len(scored) > 1 else "Result"
    return make_side_by_side(title, ["", *(run.name for run, _ in scored)], rows, note)


def _estimates(run: Run) -> dict[str, Estimate]:
    groups: dict[str, list[Episode]] = {}
    for episode in run.episodes:
        groups.setdefault(episode.task, []).append(episode)
    return {
        metric: estimate_of(metric, [*by_task.values()], largest_return(run) or 1.0)
        for metric, by_task in task_values(groups, ()).items()
    }


def _metric_rows(found: Sequence[Metrics], *, change: bool = False) -> Iterator[list[Cell]]:
    for metric in _metrics(found):
        cells = [_cell(metrics.get(metric), metric, change=change) for metrics in found]
        yield [words(TITLES.get(metric, names.matched(names.LEVEL, metric) or metric)), *cells]


def _metrics(found: Sequence[Metrics]) -> list[str]:
    """Those to be shown, in their order; ones that say the same as another are left out."""
    known = dict.fromkeys(name for metrics in found for name in metrics)
    left_out = {names.SOLVED} if names.named(names.PASS_AT, 1) in known else set()
    if all(m.get(names.LAST_REWARD_SHARE) == m.get(names.RETURN_SHARE) for m in found):
        left_out.add(names.LAST_REWARD_SHARE)
    places = {name: _place(name) for name in known if name not in left_out}
    shown = [name for name, place in places.items() if place is not None]
    told = [names.what_is_best_in(name) for name in shown]
    return sorted(shown, key=lambda name: (places[name], told.index(names.what_is_best_in(name))))


def _place(name: str) -> int | None:
    """Where a metric stands in `ORDER`; None where it is not shown."""
    if names.what_is_best_in(name):
        return ORDER.index(names.BEST_OF)
    fits = (n for n, pattern in enumerate(ORDER) if names.matched(pattern, name) is not None)
    return next(fits, None)


def _cell(found: Estimate | None, metric: str, *, change: bool) -> Cell:
    if found is None:
        return words(NONE)
    form: Form = "points" if metric == names.JOINT_RETURN else "share"
    return estimate(found.mean, (found.low, found.high), form, change=change)


def _scheme_rows(teams: Sequence[TeamResult]) -> Iterator[list[Cell]]:
    for name in dict.fromkeys(scheme for team in teams for scheme in team.schemes):
        shares = [team.schemes.get(name, 0.0) if team.schemes else None for team in teams]
        cells = [words(NONE) if s is None else estimate(s, None, "share") for s in shares]
        yield [words(f"scheme {name}"), *cells]


def _points(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _speed(team: TeamResult) -> str:
    return f"{team.speed.tokens_per_second:,.0f}" if team.speed else NONE


def _seconds(team: TeamResult) -> str:
    return f"{team.speed.seconds_per_response:.2f}" if team.speed else NONE
