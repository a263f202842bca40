"""How far a curve can go: axes end where their values do, so that little looks little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collab.records import Score
from collab.report.panels import Panel, Reach, Series, Unit
from collab.report.runs import Run, largest_return
from collab.runs import metric_names as names


def most_of(reach: Reach, unit: Unit, name: str, runs: Sequence[Run]) -> float | None:
    """The largest value that a metric can have; None where nothing bounds it.

    Args:
        name: of a part of the reward, its own.
    """
    if reach == "return":
        found = [row[names.RETURN_MAXIMUM] for run in runs for row in run.steps
                 if names.RETURN_MAXIMUM in row]  # fmt: skip
        found += [most for run in runs if (most := largest_return(run)) is not None]
    elif reach == "reward":
        found = [score.maximum for score in _scores(runs)]
    elif reach == "part":
        found = [part.weight for s in _scores(runs) for part in s.parts if part.name == name]
    else:
        found = [1.0] if unit == "share" else []
    most = max(found, default=0.0)
    return most if most > 0 else None


def _scores(runs: Sequence[Run]) -> list[Score]:
    episodes = [episode for run in runs for episode in run.episodes]
    return [turn.score for episode in episodes for turn in episode.turns if turn.score]


def bounded(panel: Panel, most: float | None) -> Panel:
    """The panel with its axis up to `most`, and its bands within what is possible.

    A value beyond `most`, or below 0, shows that it is no bound of this metric: that end is open.
    """
    values = [value for line in panel.series for value in line.y]
    ceiling = most if most is not None and max(values, default=0.0) <= most + 1e-9 else None
    floor = 0.0 if min(values, default=0.0) >= 0 else None
    return replace(panel, most=ceiling, series=[_cut(s, floor, ceiling) for s in panel.series])


def _cut(line: Series, floor: float | None, ceiling: float | None) -> Series:
    def cut(value: float) -> float:
        value = value if floor is None else max(floor, value)
        return value if ceiling is None else min(ceiling, value)

    return replace(line, low=[*map(cut, line.low)], high=[*map(cut, line.high)])
