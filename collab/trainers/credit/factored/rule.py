"""Rules that learn each agent's part of the return: reading, trust and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.runtime.independence import dependence_planned
from collab.runtime.rehearsal import rehearsed
from collab.stats import deviation
from collab.trainers.credit.base import TeamModels
from collab.trainers.credit.checks import check_one_reward, one_reward
from collab.trainers.credit.critics.critic import Critics
from collab.trainers.credit.critics.values import Place
from collab.trainers.credit.group import Group, Node

if TYPE_CHECKING:
    from torch import Tensor

    from collab.trainers.credit.critics.head import Head


@dataclass(frozen=True)
class Batch:
    """The joint actions of a step, and the responses that they are made of."""

    places: list[Place]
    targets: list[float]
    """The return of each joint action."""
    features: dict[str, Tensor]
    """By agent: of each of its responses, [responses, hidden]."""
    rows: dict[str, list[int]]
    """By agent: the position in `places` of each of its responses."""

    def by_place(self, agent: str, values: Sequence[float]) -> dict[Place, float]:
        """Values of an agent's responses, by their joint actions."""
        return {self.places[row]: v for row, v in zip(self.rows[agent], values, strict=True)}


async def read(groups: Sequence[Group], heads: Critics) -> Batch:
    """Read the responses of a step, those of an agent with the model of its head.

    Raises:
        TrainingError: agents earned different returns.
    """
    places = [(number, node) for number, group in enumerate(groups) for node in group.children]
    targets = [one_reward(groups[n], groups[n].returns, node) for n, node in places]
    batch = Batch(places, targets, {}, {})
    for agent in dict.fromkeys(agent for group in groups for agent in group.agents):
        found = {
            row: response
            for row, (number, node) in enumerate(places)
            if (response := own_response(groups[number], node, agent)) is not None
        }
        model = heads.of(agent, agent).model
        batch.features[agent] = await model.features(list(found.values()))
        batch.rows[agent] = list(found)
    return batch


def own_response(group: Group, node: Node, agent: str) -> tuple[int, ...] | None:
    """The tokens of an agent's last prompt of a turn and of its response to it.

    None where the agent did not act in that turn.
    """
    episode, turn = node
    found = None
    for decision in group.episodes[episode].turns[turn].decisions:
        if decision.agent == agent and decision.action.prompt_ids:
            found = decision.action.prompt_ids + decision.action.token_ids
    return found


DECAY = 0.9
"""What a step's errors count at the next one."""


class FitQuality:
    """R^2 within what is compared, of predictions made before they were fitted to the step.

    A moving average over steps.
    """

    def __init__(self) -> None:
        self._errors = self._spread = 0.0

    @property
    def share(self) -> float:
        """R^2, 0 where it is not above 0, and as long as nothing is known."""
        return max(0.0, 1 - self._errors / self._spread) if self._spread > 0 else 0.0

    def begin(self) -> None:
        """Let earlier steps count for less."""
        self._errors, self._spread = DECAY * self._errors, DECAY * self._spread

    def add(self, predicted: Sequence[float], returns: Sequence[float]) -> None:
        """Note what was predicted of returns that are compared with each other."""
        errors = [value - guess for value, guess in zip(returns, predicted, strict=True)]
        self._errors += len(returns) * deviation(errors) ** 2
        self._spread += len(returns) * deviation(returns) ** 2

    def state(self) -> dict[str, float]:
        """What the next step depends on."""
        return {"errors": self._errors, "spread": self._spread}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from what `state` gave."""
        self._errors, self._spread = state["errors"], state["spread"]


class Factored:
    """A head q_i for each agent, on its own prompt and response."""

    name = ""
    compares = True
    pays_as_played = False

    def __init__(
        self, *, rate: float = 1e-3, width: int = 0, steps: int = 4, model: str | None = None
    ) -> None:
        self._heads = Critics(rate=rate, width=width, steps=steps, model=model)
        self._steps, self._fit = steps, FitQuality()
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
