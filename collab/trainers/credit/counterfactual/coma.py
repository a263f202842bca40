"""COMA, sampled: each response against the agent's other responses in its place."""

from __future__ import annotations

from collab.trainers.credit.counterfactual.rule import Counterfactual


class Coma(Counterfactual):
    """A_i^(g) = R(y^g) - mean over g' != g of R(y_i^g', y_-i^g).

    Foerster et al., arXiv 1705.08926: the expectation over the agent's own actions is taken by its
    other samples, and their value is not a critic's but the judge's. Unbiased wherever nobody's
    answer of the turn depends on the agent's, so also for the last of a sequential team and in
    later turns; others get leave-one-out. On a parallel turn `cross` has less variance.

    Costs no generation, but the judging of n G (G - 1) joint actions a turn at most, for two agents
    half of it.

    Args:
        shifts: the joint actions of m samples, as in `cross`; by default those of all.
    """

    name = "coma"

    def __init__(self, *, shifts: int | None = None) -> None:
        super().__init__(shifts or "samples", shifts or "samples")
