"""RAE: compares every agent with a moving average of its own returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from collab.runs import metric_names
from collab.stats import mean
from collab.trainers.credit.base import Algorithm
from collab.trainers.credit.group import Group, ResponseKey, Weights

Seat = tuple[str, str, int]
"""A game (the suite of a task), an agent, and a turn."""


class Rae(Algorithm):
    """Credit by a moving average: A_t^(g) = R_i,t^(g) - b_i,t.

    Then b_i,t <- decay b_i,t + (1 - decay) R_i,t^(g).

    Role-conditioned advantage estimation, SPIRAL (Liu et al., arXiv 2506.24119): an average per
    game and role. Here it is also per turn, because returns of later turns are smaller. The
    baseline is read before the response's own return is added, so the gradient is unbiased. RAE is
    valid for every protocol, and for self-play, whose returns sum to 0. A group may have one
    episode.

    Args:
        decay: the share of the average kept at each response; 0 uses only the last return.
    """

    is_centered = False

    def __init__(self, *, decay: Annotated[float, Field(ge=0, lt=1)] = 0.95) -> None:
        self._decay = decay
        self._averages: dict[Seat, float] = {}

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        return [self._credit(group) for group in groups]

    def measures(self) -> dict[str, float]:
        """Return `credit/AGENT/average`: the average return of the first turn, over all games."""
        by_agent: dict[str, list[float]] = {}
        for (_, agent, turn), average in self._averages.items():
            if turn == 0:
                by_agent.setdefault(agent, []).append(average)
        return {
            metric_names.fill_pattern(metric_names.CREDIT_AVERAGE, agent): mean(averages)
            for agent, averages in by_agent.items()
        }

    def state(self) -> dict[str, Any]:
        return {"averages": [[*seat, average] for seat, average in self._averages.items()]}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._averages = {(g, agent, turn): value for g, agent, turn, value in state["averages"]}

    def _credit(self, group: Group) -> Weights:
        weights: dict[ResponseKey, float] = {}
        for (episode, turn), returns in sorted(group.returns.items()):
            game = group.task.rpartition("/")[0]
            for agent, earned in returns.items():
                average = self._averages.get((game, agent, turn), 0.0)
                weights[episode, turn, agent] = earned - average
                self._averages[game, agent, turn] = (
                    self._decay * average + (1 - self._decay) * earned
                )
        return weights
