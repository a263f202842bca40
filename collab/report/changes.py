"""Held-out problem by problem: what it earned before training and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collab.report.gains import MODES, values_of
from collab.report.problems import MOST_TASKS, natural
from collab.report.runs import Run, at_most
from collab.report.shown import Shown
from collab.report.tables import NONE, Cell, Table, estimate, make_table, show, words

_COLUMNS = ("before", "after", "gain")

Places = dict[tuple[int, str, str | None, str | None], int]
"""The first episode of each run, problem, mode and phase."""


def change_table(runs: Sequence[Run], shown: Sequence[Shown]) -> Table | None:
    """A row for each problem; of several runs, a column for each.

    Gains lead to two of the `shown` episodes.
    """
    tasks = sorted({task for run in runs for task in _tasks(run)}, key=natural)
    if not tasks:
        return None
    places = _places(shown)
    several = len(runs) > 1
    rows = [
        [
            words(task),
            *(
                cell
                for number, run in enumerate(runs)
                for mode in MODES
                for cell in _cells(run, number, task, mode, places, short=several)
            ),
        ]
        for task in tasks[:MOST_TASKS]
    ]
    columns = [f"{run.name}, {mode}" for run in runs for mode in MODES]
    if not several:
        columns = [f"{mode.capitalize()} {what}" for mode in MODES for what in _COLUMNS]
    note = (
        f"Mean returns{at_most(runs)}. A diff is of the first samples before training and after it."
    )
    if len(tasks) > MOST_TASKS:
        note += f" The first {MOST_TASKS} of {len(tasks):,} problems are shown."
    return make_table("Held-out problem by problem", ["Problem", *columns], rows, note)


def _tasks(run: Run) -> set[str]:
    if len(run.evaluations) < 2:
        return set()
    first, last = run.evaluations[0], run.evaluations[-1]
    return (set(first.sampled) & set(last.sampled)) | (set(first.greedy) & set(last.greedy))


def _places(shown: Sequence[Shown]) -> Places:
    places: Places = {}
    for place, item in enumerate(shown):
        places.setdefault((item.run, item.episode.task, item.mode, item.phase), place)
    return places


def _cells(
    run: Run, number: int, task: str, mode: str, places: Places, *, short: bool
) -> Iterator[Cell]:
    """Before, after and the gain; in `short`, the gain with the two below it."""
    steps = [evaluation.step for evaluation in run.evaluations] or [0]
    ends = (steps[0], steps[-1])
    before, after = (values_of(run, step, mode, solved=False).get(task) for step in ends)
    if not short:
        found = (before, after)
        yield from (words(NONE) if v is None else estimate(v, None, "points") for v in found)
    if before is None or after is None or len(steps) < 2:
        yield words(NONE)
        return
    pair = [places.get((number, task, mode, f"held out {end}")) for end in ("before", "after")]
    link = f"{pair[0]}/{pair[1]}" if None not in pair else ""
    told = f"{show(before, 'points')} → {show(after, 'points')}" if short else ""
    gain = estimate(after - before, None, "points", change=True)
    yield replace(gain, pair=link, interval=told)
