"""The opening of a report: one sentence, and tables of means with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collab.evaluation import intervals
from collab.evaluation.results import (
    Difference,
    Estimate,
    Metrics,
    Results,
    metric_names,
    metric_rows,
    sections,
)
from collab.evaluation.table import Form, ResultTable, show
from collab.evaluation.values import estimate_of, how_to_read, task_values
from collab.records import Episode
from collab.report.runs import Run, largest_return
from collab.runs import metric_names as names
from collab.stats import mean
from collab.wording import counted

METHOD = f"95 % intervals: {intervals.METHOD}."

Named = Sequence[tuple[str, Metrics]]
"""The metrics of teams or runs, by their labels."""


@dataclass(frozen=True)
class Opening:
    sentence: str = ""
    """The result in one sentence, empty if nothing was scored."""
    tables: list[ResultTable] = field(default_factory=list)
    note: str = ""


def joined(openings: Sequence[Opening]) -> Opening:
    """Join several openings into one."""
    return Opening(
        " ".join(o.sentence for o in openings if o.sentence),
        [table for opening in openings for table in opening.tables],
        " ".join(dict.fromkeys(o.note for o in openings if o.note)),
    )


def in_words(value: float, form: Form, most: float | None = None) -> str:
    """Return a value within a sentence: shares as whole percents, points with their maximum.

    A share is shown as 0 or 100 percent only if it is exactly that.
    """
    if form == "points":
        return show(value, form) + (f" of {show(most, form)}" if most else "")
    whole = int(100 * value + 0.5)
    if whole in (0, 100) and value != whole / 100:
        return show(value, form)
    return f"{whole} %"


def size_of(problems: int, samples: int | None, seeds: int = 1) -> str:
    """Return the numbers of problems, samples and seeds, for use in parentheses."""
    return ", ".join(_sizes(problems, samples, seeds))


def _sizes(problems: int, samples: int | None, seeds: int) -> Iterator[str]:
    yield counted(problems, "problem")
    if samples:
        yield f"{counted(samples, 'sample')} each"
    if seeds > 1:
        yield f"mean of {seeds} seeds"


def evaluation_opening(results: Results) -> Opening:
    """Return the tables of an evaluation, and a sentence on the best team."""
    if not results.teams:
        return Opening()
    sentence = _best_of([(team.label, team.metrics) for team in results.teams], results.differences)
    size = size_of(len(results.tasks), results.samples)
    note = "; ".join([how_to_read(results), "differences are paired by problem"])
    notes = [f"{note[0].upper()}{note[1:]}.", *results.notes]
    return Opening(f"{sentence} ({size})." if sentence else "", sections(results), " ".join(notes))


def run_opening(runs: Sequence[Run]) -> Opening:
    """Return the opening for runs without training, empty if there is no score."""
    scored = [(run, metrics) for run in runs if (metrics := _estimates(run))]
    if not scored:
        return Opening()
    entries = [("mean" if len(scored) == 1 else run.name, metrics) for run, metrics in scored]
    columns = [(metrics, largest_return(run)) for run, metrics in scored]
    rows = [*metric_rows(metric_names([metrics for metrics, _ in columns]), columns)]
    note = f"Means over problems. In brackets {METHOD}"
    if len({frozenset(e.task for e in run.episodes) for run, _ in scored}) > 1:
        note += " The runs played different problems."
    table = ResultTable("Results", ["", *(label for label, _ in entries)], rows)
    return Opening(_run_sentence([run for run, _ in scored], entries), [table], note)


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
    """Return a sentence on a run of one problem: samples solved, and the return."""
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
    """Return a sentence on the best team by the first metric, compared with another."""
    order = [names.named(names.PASS_AT, 1), names.SOLVED, names.JOINT_RETURN]
    metric = next((name for name in order if any(name in m for _, m in entries)), None)
    if metric is None:
        return ""
    known = [(label, m[metric]) for label, m in entries if metric in m]
    is_return = metric == names.JOINT_RETURN
    does, what = ("earns", "") if is_return else ("solves", " of the problems")
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
    """Return True if the interval of the difference excludes zero, or if there are no pairs."""
    pairs = [d for d in differences if {d.team, d.baseline} == {label, other}]
    change = next((d.metrics[metric] for d in pairs if metric in d.metrics), None)
    return change is None or change.low > 0 or change.high < 0


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
