"""A table of problems: solved episodes, returns and schemes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from collab.evaluation.table import NONE, ResultTable, TableCell, estimate, make_table, words
from collab.records import Episode
from collab.report.episodes import ShownEpisode
from collab.report.runs import Run, at_most

MOST_TASKS = 300

Items = list[tuple[int, ShownEpisode]]
"""Episodes, with their places in the report."""

Groups = dict[tuple[str, int], Items]
"""Episodes by problem and number of the run."""


def task_table(runs: Sequence[Run], shown: Sequence[ShownEpisode]) -> ResultTable | None:
    """A row for each problem, without the held-out ones; of several runs, a column for each.

    `shown` are the episodes that are counted.
    """
    groups: Groups = {}
    for place, item in enumerate(shown):
        if item.mode is None:
            groups.setdefault((item.episode.task, item.run), []).append((place, item))
    tasks = sorted({task for task, _ in groups}, key=natural)
    if len(tasks) < 2:
        return None
    first_tasks = tasks[:MOST_TASKS]
    if len(runs) > 1:
        columns, rows = _side_by_side(runs, groups, first_tasks)
    else:
        trained = any(item.phase for items in groups.values() for _, item in items)
        columns = ["Problem", "Episodes", "Solved", "Return"]
        columns += ["First step", "Last step", "Schemes"] if trained else ["Schemes"]
        rows = [_task_row(task, groups[task, 0], trained) for task in first_tasks]
    note = f"Mean returns{at_most(runs)}, of the episodes in this report."
    if len(tasks) > MOST_TASKS:
        note += f" The first {MOST_TASKS} of {len(tasks):,} problems are shown."
    return make_table("Problem by problem", columns, rows, note)


def _side_by_side(
    runs: Sequence[Run], groups: Groups, tasks: Sequence[str]
) -> tuple[list[str], list[list[TableCell]]]:
    """The columns and rows of several runs; a problem leads to the first two that played it."""
    numbers = sorted({number for _, number in groups})
    rows = []
    for task in tasks:
        firsts = [groups[task, n][0][0] for n in numbers if (task, n) in groups]
        trained = any(_ends(groups.get((task, n), [])) for n in numbers)
        pair = f"{firsts[0]}/{firsts[1]}" if len(firsts) > 1 and not trained else ""
        cells = [_run_cell(groups.get((task, n), [])) for n in numbers]
        rows.append([words(task, pair=pair), *cells])
    return ["Problem", *(runs[n].name for n in numbers)], rows


def _run_cell(items: Items) -> TableCell:
    """The mean return of a run at a problem, and its solved episodes."""
    played = [item.episode for _, item in items if not item.episode.further]
    known = [e.score.solved for e in played if e.score and e.score.solved is not None]
    solved = f"{sum(known)} of {len(known)} solved" if known else ""
    return replace(_mean_return(played), interval=solved, pair=_ends(items))


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that orders numbers within a name as numbers."""
    parts = re.split(r"(\d+)", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _task_row(title: str, items: Items, trained: bool) -> list[TableCell]:
    played = [item for _, item in items if not item.episode.further]
    episodes = [item.episode for item in played]
    known = [e.score.solved for e in episodes if e.score and e.score.solved is not None]
    row = [
        words(title, pair=_ends(items)),
        words(len(episodes)),
        estimate(fmean(known), None, "share") if known else words(NONE),
        _mean_return(episodes),
    ]
    if trained:
        steps = sorted({item.step for _, item in items if item.step is not None})
        for step in (steps[:1], steps[1:][-1:]):
            row.append(_mean_return([item.episode for item in played if item.step in step]))
    schemes = Counter(e.score.scheme for e in episodes if e.score and e.score.scheme)
    return [*row, words(", ".join(f"{n} {name}" for name, n in schemes.most_common()) or NONE)]


def _mean_return(episodes: Sequence[Episode]) -> TableCell:
    returns = [e.joint_return for e in episodes if e.joint_return is not None]
    return estimate(fmean(returns), None, "points") if returns else words(NONE)


def _ends(items: Items) -> str:
    """An episode of the first step and one of the last."""
    steps = {place: item.step for place, item in items if item.step is not None}
    if len(set(steps.values())) < 2:
        return ""
    first, last = min(steps, key=lambda n: (steps[n], n)), max(steps, key=lambda n: (steps[n], -n))
    return f"{first}/{last}"
