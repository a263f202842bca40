"""Tables: rewards of an agent's responses with those of its teammates from other episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from collab.trainers.credit.group import Choice, Group, Node

Vector = NDArray[np.float64]
Cells = NDArray[np.float64]

SampleShifts = Annotated[int, Field(ge=2)]
Shifts = SampleShifts | Literal["samples", "all"]
"""The teammates' samples that a response is scored with.

A number m: those of m samples, including its own; the teammates' responses of one sample stay
together. `samples`: the same with all G samples. `all`: every combination of the teammates'
responses, from any samples.
"""


@dataclass(frozen=True)
class Table:
    """Rewards of an agent: a row per own response (G), a column per set of teammates' responses."""

    cells: Cells
    """Rewards [G, columns], or NaN if a joint action was not scored, or could not be."""
    columns: tuple[int, ...]
    """Column of each sample that holds the teammates' responses of the same joint action."""

    @property
    def played(self) -> Vector:
        """Rewards of the joint actions that were played: [G]."""
        return self.cells[np.arange(len(self.columns)), list(self.columns)]

    def crossed(self) -> Vector:
        """Return the weights of `cross`, [G]: the mean of each row, minus the mean of the other
        rows.

        This is G/(G-1) times the row's effect, which is its mean minus the mean of all cells. If
        cells are missing, the effects come from the least-squares fit cells = row + column. The
        effects are computed for each set of rows with columns in common. They are scaled so that
        the coefficients of a row's own cells add up to 1. The coefficients of each column add up to
        0, so the teammates' luck cancels out. The estimate is then unbiased if the missing cells do
        not depend on the answers. A row without a column in common with another row is compared by
        leave-one-out of the played rewards.
        """
        scored = ~np.isnan(self.cells)
        effects, sizes = row_effects(np.where(scored, self.cells, 0.0), scored)
        alone = sizes < 2
        weights = np.where(alone, 0.0, effects * sizes / np.maximum(sizes - 1, 1))
        if alone.any():
            weights[alone] = leave_one_out(self.played)[alone]
        return weights

    def swapped(self) -> Vector:
        """Return the weights of `coma`, [G]: the reward that was played minus a baseline.

        The baseline is the mean reward of the agent's other responses with the same teammates'
        responses.
        """
        size = len(self.columns)
        others = self.cells[:, list(self.columns)].T.copy()  # [sample, own response]
        others[np.arange(size), np.arange(size)] = np.nan
        known = ~np.isnan(others)
        total, count = np.where(known, others, 0.0).sum(1), known.sum(1)
        swapped = self.played - total / np.maximum(count, 1)
        return np.where(count > 0, swapped, leave_one_out(self.played))


def row_effects(values: Cells, scored: NDArray[np.bool_]) -> tuple[Vector, NDArray[np.int64]]:
    """Fit values = row + column by least squares over the `scored` cells.

    Args:
        values: [rows, columns].
        scored: of the same shape.

    The first result is the rows' effects, with mean 0 within each set of rows connected by common
    columns, directly or through other rows. The second is the size of each row's set. Both are
    [rows].
    """
    if scored.all():
        means = values.mean(1)
        return means - means.mean(), np.full(len(values), len(values))
    counts = np.maximum(scored.sum(0), 1)
    centered = np.where(scored, values - values.sum(0) / counts, 0.0).sum(1)
    shared = (scored / counts) @ scored.T.astype(float)
    system = np.diag(scored.sum(1).astype(float)) - shared
    reached = shared > 0
    for _ in range(len(values).bit_length()):
        reached = reached @ reached
    return np.linalg.pinv(system, hermitian=True) @ centered, reached.sum(1)


def leave_one_out(values: Vector) -> Vector:
    """Return each value minus the mean of the others, or 0 for a single value."""
    size = len(values)
    weights: Vector = (values - values.mean()) * (size / max(size - 1, 1))
    return weights


async def make_table(
    group: Group, nodes: Sequence[Node], team: Sequence[str], agent: str, shifts: Shifts
) -> Table:
    """Return the rewards of an agent's responses at `nodes`, scored with responses of its
    teammates.

    Unless `shifts` is `all`, the teammates' responses of one sample stay together. With m shifts,
    response g is scored with the samples g to g + m - 1 (modulo G) if the agent is the first of
    `team`, and else with those of g - m + 1 to g. The tables of two agents therefore hold the same
    joint actions, and each is scored once.
    """
    size, mates = len(nodes), [name for name in team if name != agent]
    columns = _columns(size, len(mates), shifts)
    played = [columns.index((row,) * len(mates)) for row in range(size)]
    step = 1 if agent == team[0] else -1
    missing = [
        (row, number)
        for row in range(size)
        for number, column in enumerate(columns)
        if number != played[row]
        if not isinstance(shifts, int) or (column[0] - row) * step % size < shifts
    ]
    choices: list[Choice] = [
        {agent: row, **dict(zip(mates, columns[number], strict=True))} for row, number in missing
    ]
    cells = np.full((size, len(columns)), np.nan)
    cells[np.arange(size), played] = [group.rewards[node][agent] for node in nodes]
    for (row, number), rewards in zip(missing, await group.score(nodes, choices), strict=True):
        if rewards is not None:
            cells[row, number] = rewards[agent]
    return Table(cells, tuple(played))


def _columns(size: int, n_mates: int, shifts: Shifts) -> list[tuple[int, ...]]:
    """Return the samples that the teammates' responses are taken from."""
    if shifts == "all":
        return list(product(range(size), repeat=n_mates))
    return [(number,) * n_mates for number in range(size)]
