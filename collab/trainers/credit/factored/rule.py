"""What rules have in common that learn each agent's part of the return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.runtime.independence import dependence_planned
from collab.runtime.rehearsal import rehearsed
from collab.trainers.credit.critics.critic import Critics
from collab.trainers.credit.factored.held_out import HeldOut
from collab.trainers.credit.factored.reading import Batch
from collab.trainers.credit.group import Group
from collab.trainers.credit.models import TeamModels
from collab.trainers.credit.one_reward import check_one_reward

if TYPE_CHECKING:
    from collab.trainers.credit.critics.head import Head


class Factored:
    """A head q_i for each agent, on its own prompt and response."""

    name = ""
    compares = True
    pays_as_played = False

    def __init__(
        self, *, rate: float = 1e-3, width: int = 0, steps: int = 4, model: str | None = None
    ) -> None:
        self._heads = Critics(rate=rate, width=width, steps=steps, model=model)
        self._steps, self._fit = steps, HeldOut()
        self._told: dict[str, float] = {}

    async def open(self, models: TeamModels) -> None:
        """As `UsesModels.open`."""
        self._heads.open(models)

    def measures(self) -> dict[str, float]:
        """`parts/loss`, the squared error before the step was learned from; `parts/trust`, R^2 of
        returns within what is compared, on responses that had not been learned from."""
        return self._told

    def state(self) -> dict[str, Any]:
        """The heads, and how far they are trusted."""
        return {"heads": self._heads.state(), "fit": self._fit.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._heads.restore(state["heads"])
        self._fit.restore(state["fit"])

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError where a part of the return could not be told from another's."""
        _check_independence(self.name, recipe)
        check_one_reward(self.name, recipe, spec)
        if spec.joint_mode != "aligned":
            raise RecipeError(
                f"algorithm '{self.name}' learns from what was played; set joint_mode to 'aligned'"
            )

    def _heads_of(self, batch: Batch) -> dict[str, Head]:
        return {agent: self._heads.of(agent, agent).head for agent in batch.rows}

    def _judge(self, groups: Sequence[Group], batch: Batch, predicted: Sequence[float]) -> None:
        """Note how well the returns of a step were predicted before they were learned from."""
        self._fit.begin()
        found = dict(zip(batch.places, zip(predicted, batch.targets, strict=True), strict=True))
        for number, group in enumerate(groups):
            for nodes in group.baselines_over:
                guesses, returns = zip(*(found[number, node] for node in nodes), strict=True)
                self._fit.add(guesses, returns)


def _check_independence(name: str, recipe: Recipe) -> None:
    depends = dependence_planned(rehearsed(recipe))
    trained = [agent for agent, spec in recipe.team.agents.items() if spec.trainable]
    for agent in trained:
        if seen := depends.ancestors(agent).intersection(trained):
            raise RecipeError(
                f"algorithm '{name}' cannot tell the part of '{agent}' from that of"
                f" '{min(seen)}', whose answer of the turn it is shown; set algorithm to 'marloo',"
                " 'coma' or 'maac', or team.protocol to 'parallel'"
            )
