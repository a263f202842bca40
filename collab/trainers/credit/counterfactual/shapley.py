"""Shapley values, where absent agents are averaged over their samples."""

from __future__ import annotations

from itertools import product
from math import factorial

import numpy as np

from collab.trainers.credit.counterfactual.rule import Counterfactual
from collab.trainers.credit.counterfactual.table import Table, Vector


class Shapley(Counterfactual):
    """A_i^(g) = phi_i(y^g) minus the mean of phi_i over the agent's other responses in its place.

    phi_i is the Shapley value (1953) of agent i: let the agents join one after the other, in every
    order; phi_i is the mean of what i adds to v(S) when it joins, S being those before it. v(S) is
    the expected reward given the responses of S, with each agent that is not in S averaged over its
    own samples. For two agents the rule is the mean of `coma` and `cross`; what agents earn only
    together is split evenly among them. It is unbiased where `cross` is, and takes `coma`'s form
    where crossing would be biased. It would be biased everywhere if absent agents were removed in
    place of averaged: it would follow in part what each agent earns alone.

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
    """What each response adds to those teammates' responses of its sample that are `present`, the
    absent teammates averaged, minus what the agent's other responses add there: [G]."""
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
