"""Held-out problem by problem: what it earned before training and after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collab.report.gains import MODES, values_of
from collab.report.problems import MOST_TASKS, natural
from collab.report.runs import Run, at_most
from collab.report.shown import Shown
from collab.report.tables import NONE, Cell, Table, estimate, make_table, words

_COLUMNS = ("before", "after", "gain")

Places = dict[tuple[int, str, str | None, str | None], int]
"""The first episode of each run, problem, mode and phase."""


def change_table(runs: Sequence[Run], shown: Sequence[Shown]) -> Table | None:
    """A row for each run and problem; gains lead to two of the `shown` episodes."""
    items = sorted(
        ((task, number) for number, run in enumerate(runs) for task in _tasks(run)),
        key=lambda item: (natural(item[0]), item[1]),
    )
    if not items:
        return None
    places = _places(shown)
    rows = [
        [
            words(f"{task}, {runs[number].name}" if len(runs) > 1 else task),
            *(cell for mode in MODES for cell in _cells(runs[number], number, task, mode, places)),
        ]
        for task, number in items[:MOST_TASKS]
    ]
    columns = [f"{mode.capitalize()} {what}" for mode in MODES for what in _COLUMNS]
    note = (
        f"Mean returns{at_most(runs)}. A diff is of the first samples before training and after it."
    )
    if len(items) > MOST_TASKS:
        note += f" The first {MOST_TASKS} of {len(items):,} rows are shown."
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


def _cells(run: Run, number: int, task: str, mode: str, places: Places) -> Iterator[Cell]:
    ends = (run.evaluations[0].step, run.evaluations[-1].step)
    before, after = (values_of(run, step, mode, solved=False).get(task) for step in ends)
    yield from (words(NONE) if v is None else estimate(v, None, "points") for v in (before, after))
    if before is None or after is None:
        yield words(NONE)
        return
    pair = [places.get((number, task, mode, f"held out {end}")) for end in ("before", "after")]
    link = f"{pair[0]}/{pair[1]}" if None not in pair else ""
    yield replace(estimate(after - before, None, "points", change=True), pair=link)
