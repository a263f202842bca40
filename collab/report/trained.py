"""Before and after training, on held-out problems: what the report of a training run opens with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from collab.evaluation.intervals import METHOD, difference_interval, mean_interval
from collab.report.cohorts import Cohort
from collab.report.dots import Limits, Row, Value, make_plot, spanned
from collab.report.gains import MODES, ends_of
from collab.report.opening import Card, Opening, in_words, size_of
from collab.report.runs import Run, largest_return, value_at
from collab.report.tables import Form, show
from collab.runs import metric_names as names

BOTH = "sampled and greedy"


@dataclass(frozen=True)
class Change:
    """A measure of one cohort before training and after it, each a mean over problems."""

    label: str
    mode: str
    before: Value
    after: Value
    gain: float
    limits: Limits
    problems: int
    most: float
    form: Form

    @property
    def tone(self) -> str:
        low, high = self.limits
        return "good" if low > 0 else "bad" if high < 0 else ""

    @property
    def told_gain(self) -> str:
        return f"{show(self.gain, self.form, signed=True)} ({spanned(self.limits, self.form)})"

    @property
    def told_limits(self) -> str:
        """The intervals before and after."""
        ends = (self.before.limits, self.after.limits)
        return " → ".join(spanned(limits, self.form) for limits in ends if limits)


def opening_of_training(cohorts: Sequence[Cohort]) -> Opening:
    """What was reached; of runs without held-out problems, how their own returns went."""
    solved = [change for cohort in cohorts for change in _changes(cohort, solved=True)]
    returns = [change for cohort in cohorts for change in _changes(cohort, solved=False)]
    if not returns:
        return Opening(_without_held_out(cohorts))
    cards = [_card("Solved, held out", solved)] if solved else []
    cards.append(_card("Return, held out", returns))
    note = "Hollow: before training; filled: after it. Gains are paired by problem."
    note += f" 95 % intervals: {METHOD}."
    if any(change.mode == BOTH for change in returns):
        note += " Sampled and greedy answers earned the same."
    return Opening(_sentence(solved or returns, cohorts), cards, note)


def _changes(cohort: Cohort, *, solved: bool) -> list[Change]:
    found = [change for mode in MODES if (change := _change(cohort, mode, solved=solved))]
    if len(found) == 2 and _values(found[0]) == _values(found[1]):
        return [replace(found[0], mode=BOTH)]
    return found


def _values(change: Change) -> tuple[Value, Value, Limits]:
    return change.before, change.after, change.limits


def _change(cohort: Cohort, mode: str, *, solved: bool) -> Change | None:
    before, after = ends_of(cohort, mode, solved=solved)
    if not before:
        return None
    found = [*before.values(), *after.values()]
    most = 1.0 if solved else max(*found, *(largest_return(run) or 0.0 for run in cohort.runs))
    gains = [after[task] - before[task] for task in before]
    low = min(0.0, *found)
    first, last = (_value([*values.values()], low, most) for values in (before, after))
    span = max(most, *map(abs, gains))
    limits = difference_interval(gains, span)
    form: Form = "share" if solved else "points"
    first = replace(first, before=True)
    return Change(cohort.label, mode, first, last, fmean(gains), limits, len(before), most, form)


def _value(values: Sequence[float], low: float, most: float) -> Value:
    return Value(fmean(values), mean_interval(values, low, most))


def _card(title: str, changes: Sequence[Change]) -> Card:
    form, most = changes[0].form, max(change.most for change in changes)
    labels = len({change.label for change in changes}) > 1
    modes = len({change.mode for change in changes}) > 1
    rows = [_row(change, labels=labels, modes=modes) for change in changes]
    plot = make_plot(f"{title}, before and after training", rows, form, most)
    if labels:
        return Card(title, [plot])
    first = changes[0]
    return Card(
        title,
        [plot],
        before=show(first.before.mean, form),
        after=show(first.after.mean, form),
        most="" if form == "share" else show(most, form),
        gain=first.told_gain,
        tone=first.tone,
    )


def _row(change: Change, *, labels: bool, modes: bool) -> Row:
    label = change.label if labels else change.mode
    label += f", {change.mode}" if labels and modes else ""
    before, after = (show(v.mean, change.form) for v in (change.before, change.after))
    values = [change.before, change.after]
    # A single cohort's gain stands above its rows.
    told = change.told_gain if labels else change.told_limits
    return Row(label, values, f"{before} → {after}", told, change.tone)


def _sentence(changes: Sequence[Change], cohorts: Sequence[Cohort]) -> str:
    best = max(changes, key=lambda change: (change.mode != "greedy", change.after.mean))
    cohort = next(one for one in cohorts if one.label == best.label)
    share = best.form == "share"
    who = "The team" if len(cohorts) == 1 else f"With {cohort.what}, the team"
    does, what = ("solves", "of") if share else ("earns", "on")
    after = in_words(best.after.mean, best.form, best.most)
    before = in_words(best.before.mean, best.form)
    size = size_of(best.problems, _samples(cohort.runs, best.mode), len(cohort.runs))
    most = f": the most of {len(cohorts)} recipes" if len(cohorts) > 1 else ""
    doubt = "" if best.tone else "; the difference may be chance"
    return f"{who} {does} {after} {what} held-out problems, {before} before ({size}){most}{doubt}."


def _samples(runs: Sequence[Run], mode: str) -> int | None:
    """Of each problem, where all runs have the same number."""
    if mode == "greedy":
        return None
    found = {value_at(run.recipe, "trainer.evaluation.samples") for run in runs}
    [samples] = found if len(found) == 1 else [None]
    return samples if isinstance(samples, int) else None


def _without_held_out(cohorts: Sequence[Cohort]) -> str:
    """The mean return of the first step and the last one, where there is one run."""
    runs = [run for cohort in cohorts for run in cohort.runs]
    if len(runs) != 1:
        return ""
    rows = [row for row in runs[0].steps if names.RETURN in row]
    if not rows:
        return ""
    most = largest_return(runs[0])
    last = in_words(rows[-1][names.RETURN], "points", most)
    if len(rows) == 1:
        return f"In its only step of training so far, the team earns {last}; nothing is held out."
    first = in_words(rows[0][names.RETURN], "points")
    return (
        f"In training the team earns {last} in step {int(rows[-1]['step']):,},"
        f" {first} in step {int(rows[0]['step']):,}; no held-out problems tell before and after."
    )
