"""Who decides the reward: shares of its variance within a task, by agent and by interaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from collab.runs import metric_names
from collab.stats import mean
from collab.trainers.credit.counterfactual.table import Cells, Table, Vector


@dataclass
class Shares:
    """Estimates, from the tables of a step, which part of the reward's variance each agent decides.

    A reward is R = mean + own + teammates' + interaction: what the agent's response adds by itself,
    what the teammates' add by themselves, and what only both together do. Take half the mean
    squared difference of two cells of a table. Of two cells in one column it estimates var(own) +
    var(interaction), as only the agent's response differs; of two in one row var(teammates') +
    var(interaction); of two that share neither, the sum of all three. The estimates have no bias,
    whichever cells are missing, and the shares follow from them.
    """

    _columns: dict[str, list[float]] = field(default_factory=dict)
    _rows: dict[str, list[float]] = field(default_factory=dict)
    _all: dict[str, list[float]] = field(default_factory=dict)

    def add(self, agent: str, table: Table) -> None:
        """Take a table whose rows are drawn independently of its columns."""
        cells = table.cells[:, list(table.columns)]
        columns, rows, everything = _differences(cells.T), _differences(cells), _spread(cells)
        if columns is None or rows is None or everything is None:
            return
        self._columns.setdefault(agent, []).append(columns)
        self._rows.setdefault(agent, []).append(rows)
        self._all.setdefault(agent, []).append(everything)

    def measures(self) -> Iterator[tuple[str, float]]:
        """`credit/AGENT/own`: the share that the agent's own responses decide by themselves;
        `/influence`: that and all interactions with it; `credit/interaction`: what no agent decides
        by itself. Nothing where all rewards of each task were equal."""
        own: list[float] = []
        for agent, found in self._all.items():
            total = mean(found)
            if total <= 0:
                continue
            own.append((total - mean(self._rows[agent])) / total)
            yield metric_names.named(metric_names.CREDIT_OWN, agent), _share(own[-1])
            yield (
                metric_names.named(metric_names.CREDIT_INFLUENCE, agent),
                _share(mean(self._columns[agent]) / total),
            )
        if len(own) > 1:
            yield metric_names.CREDIT_INTERACTION, _share(1 - sum(own))


def _share(value: float) -> float:
    """An estimate of a share may lie a little outside."""
    return min(max(value, 0.0), 1.0)


def _pairs(values: Cells) -> tuple[Vector, Vector]:
    """By row: the squared differences of all pairs, added up, and how many pairs there are."""
    known = ~np.isnan(values)
    numbers, filled = known.sum(1), np.where(known, values, 0.0)
    squares = numbers * (filled**2).sum(1) - filled.sum(1) ** 2
    return squares, numbers * (numbers - 1) / 2


def _differences(values: Cells) -> float | None:
    """Half the mean squared difference of two cells of one row; None without any."""
    squares, pairs = _pairs(values)
    return float(squares.sum() / pairs.sum() / 2) if pairs.sum() else None


def _spread(values: Cells) -> float | None:
    """Half the mean squared difference of two cells that share neither row nor column."""
    squares, pairs = _pairs(values.reshape(1, -1))
    for part in (values, values.T):
        of_part, n_pairs = _pairs(part)
        squares, pairs = squares - of_part.sum(), pairs - n_pairs.sum()
    return float(squares[0] / pairs[0] / 2) if pairs[0] else None
