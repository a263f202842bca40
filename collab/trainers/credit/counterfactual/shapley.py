"""Shapley values, where absent agents are averaged over their samples."""

from __future__ import annotations

from itertools import product
from math import factorial

import numpy as np

from collab.trainers.credit.counterfactual.rule import Counterfactual
from collab.trainers.credit.counterfactual.table import Table, Vector


class Shapley(Counterfactual):
    """A_i^(g): the mean, over the orders in which the agents may join, of what i adds to those
    before it, with everybody after it averaged over its samples; less the same for i's others.

    Shapley 1953 on v(S) = E[R | y_S]. For two agents it is the mean of `coma` and `cross`; pure
    interactions are split evenly between those who take part. Unbiased where `cross` is; where
    crossing is not, `coma`'s form. Averaging over absent agents is what keeps it so: with absent
    agents *removed* it would follow half the solo objective.

    Costs no generation, but the judging of G^n - G joint actions a turn.
    """

    name = "shapley"
    pays_as_played = False

    def __init__(self) -> None:
        super().__init__("all", "all")

    def crossed(self, table: Table) -> Vector:
        """As the class says."""
        size, n_columns = table.cells.shape
        n_mates = round(np.log(n_columns) / np.log(size))
        cells = table.cells.reshape((size,) * (n_mates + 1))
        weights = np.zeros(size)
        for present in product((False, True), repeat=n_mates):
            chance = factorial(sum(present)) * factorial(n_mates - sum(present))
            share = chance / factorial(n_mates + 1)
            weights += share * _added(cells, present, table)
        return weights


def _added(cells: Vector, present: tuple[bool, ...], table: Table) -> Vector:
    """What a response adds to the responses of its sample that are present."""
    if not any(present):
        return table.crossed()
    absent = tuple(axis + 1 for axis, here in enumerate(present) if not here)
    known = ~np.isnan(cells)
    counts = np.maximum(known.sum(axis=absent), 1)
    means = np.where(known, cells, 0.0).sum(axis=absent) / counts
    means = np.where(known.any(axis=absent), means, np.nan) if absent else cells
    size = len(cells)
    place = (slice(None),) + (np.arange(size),) * sum(present)
    own = means[place]  # [own response, sample]
    return Table(own, tuple(range(size))).swapped()
