"""CROSS: every response with all of its teammates' samples."""

from __future__ import annotations

from collab.trainers.credit.counterfactual.rule import Counterfactual
from collab.trainers.credit.counterfactual.table import Shifts, Table, Vector

FEW = 3
"""The shifts by default, where a joint artefact is of more than two answers."""


class Cross(Counterfactual):
    """A_i^(g) = Q_i^g - mean over g' != g of Q_i^g', with Q_i^g the mean over teammates' samples h
    of R(y_i^g, y_-i^h).

    Ours. A response is worth what it earns whoever it meets: the teammates' luck, which MAGRPO
    pays every agent for, is gone, and the gradient is unbiased. It is the additive part of the
    reward, what an exact VDN (arXiv 1706.05296) would learn, taken from the judge. For the turn of
    a parallel team, or siblings in a tree; see `forms` for what becomes of other responses.

    Costs no generation, but the judging of joint actions: G^n - G a turn with `shifts: all`, with m
    shifts n G (m - 1), and for two agents half of that.

    Args:
        shifts: see `Shifts`; by default `all` for two agents, and 3 for more.
    """

    name = "cross"
    pays_as_played = False

    def __init__(self, *, shifts: Shifts | None = None) -> None:
        super().__init__(shifts or "all", shifts or FEW)

    def crossed(self, table: Table) -> Vector:
        """As the class says."""
        return table.crossed()
