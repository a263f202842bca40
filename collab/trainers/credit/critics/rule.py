"""What rules with critics have in common: their settings, and what a checkpoint keeps of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collab.recipe import Recipe, TrainerSpec
from collab.trainers.credit.critics.critic import Critics
from collab.trainers.credit.models import TeamModels
from collab.trainers.credit.normalise import check_normalise


class ActorCritic:
    """A rule whose weights are generalised advantage estimates of its critics' values.

    Args:
        trace: lambda of GAE. 0 takes the paper's one-step error; 1 is unbiased whatever the critic
            says.
        rate: the critics' learning rate.
        width: of a critic's hidden layer; 0 for none.
        steps: how often a critic learns from a batch.
        model: a local model that the critics read in place of the agents' bases.
    """

    def __init__(
        self,
        *,
        trace: float = 0.95,
        rate: float = 1e-3,
        width: int = 0,
        steps: int = 1,
        model: str | None = None,
    ) -> None:
        self._trace = trace
        self._critics = Critics(rate=rate, width=width, steps=steps, model=model)

    async def open(self, models: TeamModels) -> None:
        """As `UsesModels.open`."""
        self._critics.open(models)

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:  # noqa: ARG002
        """Raise RecipeError where weights would be divided by what they are not centred for."""
        check_normalise(spec)

    def measures(self) -> dict[str, float]:
        """`critic/NAME/loss`, the mean squared error before the step's learning, and `/explained`,
        the share of the returns' variance that the values told."""
        return self._critics.measures()

    def state(self) -> dict[str, Any]:
        """The critics, by name."""
        return self._critics.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._critics.restore(state)
