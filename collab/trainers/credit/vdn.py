"""VDN: each agent's part of the return, learned from the returns of the team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.runs.metric_names import PARTS, named
from collab.runtime.independence import dependence_planned
from collab.runtime.rehearsal import rehearsed
from collab.stats import deviation
from collab.trainers.credit.base import Algorithm, TeamModels
from collab.trainers.credit.checks import check_one_reward, one_reward
from collab.trainers.credit.counterfactual.table import leave_one_out
from collab.trainers.credit.critics import Critics, Place
from collab.trainers.credit.group import Group, Key, Node, Weights

if TYPE_CHECKING:
    from torch import Tensor

    from collab.trainers.credit.head import Head


@dataclass(frozen=True)
class Batch:
    """The joint actions of a step, and the responses in them."""

    places: list[Place]
    targets: list[float]
    """Return of each joint action."""
    features: dict[str, Tensor]
    """States of each agent's responses: [responses, hidden]."""
    rows: dict[str, list[int]]
    """Positions in `places` of each agent's responses."""

    def by_place(self, agent: str, values: Sequence[float]) -> dict[Place, float]:
        """Map the joint actions to values of an agent's responses."""
        return {self.places[row]: v for row, v in zip(self.rows[agent], values, strict=True)}


async def read(groups: Sequence[Group], heads: Critics) -> Batch:
    """Read the responses of a step, each agent's with the model of its head.

    Raises:
        TrainingError: agents earned different returns.
    """
    places = [(number, node) for number, group in enumerate(groups) for node in group.children]
    targets = [one_reward(groups[n], groups[n].returns, node) for n, node in places]
    batch = Batch(places, targets, {}, {})
    for agent in dict.fromkeys(agent for group in groups for agent in group.agents):
        responses = {
            row: response
            for row, (number, node) in enumerate(places)
            if (response := own_response(groups[number], node, agent)) is not None
        }
        model = heads.of(agent, agent).model
        batch.features[agent] = await model.features(list(responses.values()))
        batch.rows[agent] = list(responses)
    return batch


def own_response(group: Group, node: Node, agent: str) -> tuple[int, ...] | None:
    """Return the tokens of an agent's last prompt in a turn, and of its response to it.

    The result is None if the agent did not act in that turn.
    """
    episode, turn = node
    tokens = None
    for decision in group.episodes[episode].turns[turn].decisions:
        if decision.agent == agent and decision.action.prompt_ids:
            tokens = decision.action.prompt_ids + decision.action.token_ids
    return tokens


DECAY = 0.9
"""Weight of a step's errors at the next step."""


class FitQuality:
    """R^2 within the compared sets, for predictions made before they were fitted to the step.

    It is a moving average over steps.
    """

    def __init__(self) -> None:
        self._errors = self._spread = 0.0

    @property
    def share(self) -> float:
        """R^2, clipped at 0, or 0 without data."""
        return max(0.0, 1 - self._errors / self._spread) if self._spread > 0 else 0.0

    def begin(self) -> None:
        """Reduce the weight of earlier steps."""
        self._errors, self._spread = DECAY * self._errors, DECAY * self._spread

    def add(self, predicted: Sequence[float], returns: Sequence[float]) -> None:
        """Add predictions of returns that are compared with each other."""
        errors = [value - guess for value, guess in zip(returns, predicted, strict=True)]
        self._errors += len(returns) * deviation(errors) ** 2
        self._spread += len(returns) * deviation(returns) ** 2

    def state(self) -> dict[str, float]:
        """Return the sums of errors and spreads."""
        return {"errors": self._errors, "spread": self._spread}

    def restore(self, state: Mapping[str, float]) -> None:
        """Continue from an earlier `state`."""
        self._errors, self._spread = state["errors"], state["spread"]


def _check_independence(recipe: Recipe) -> None:
    depends = dependence_planned(rehearsed(recipe))
    trained = [agent for agent, spec in recipe.team.agents.items() if spec.trainable]
    for agent in trained:
        if seen := depends.ancestors(agent).intersection(trained):
            raise RecipeError(
                f"algorithm 'vdn' cannot separate the part of '{agent}' from that of"
                f" '{min(seen)}', because it sees that agent's answer in the same turn; set"
                " algorithm to 'marloo', 'coma' or 'maac', or team.protocol to 'parallel'"
            )


class VDN(Algorithm):
    """Credit by parts of the return: A_i = leave-one-out of c q_i(h_i, y_i) + (1 - c) R.

    The sum of q_i is fitted to R by squared error.

    Value decomposition (Sunehag et al., arXiv 1706.05296) used as credit. If agents answer
    independently, the least-squares fit gives q_i = the mean return of the agent's response over
    its teammates' answers, plus a constant, even if R is not a sum. The only bias of the gradient
    is then that of the fit. `cross` computes that mean by scoring combinations. VDN is for rewards
    that cannot be recomputed, such as those of a game or a person.

    c is the R^2, within a task and over earlier steps, of predictions for responses that the heads
    had not yet learned from. If it is not above 0, the rule is MARLOO. Each q_i is a head on the
    agent's base model, adapters off, at the last token of its response. The rule is valid for turns
    in which no trained agent sees another one's answer. It costs a forward pass over the responses.
    Options: `rate`, `width` and `steps` as in `iac`. `model` is read instead of the bases.
    """

    compares = True
    pays_as_played = False

    def __init__(
        self, *, rate: float = 1e-3, width: int = 0, steps: int = 4, model: str | None = None
    ) -> None:
        self._heads = Critics(rate=rate, width=width, steps=steps, model=model)
        self._steps, self._fit = steps, FitQuality()
        self._metrics: dict[str, float] = {}

    async def open(self, models: TeamModels) -> None:
        self._heads.open(models)

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        from torch import tensor
        from torch.nn.functional import mse_loss

        from collab.trainers.credit.head import descend

        if not groups:
            return []
        batch, trust = await read(groups, self._heads), self._fit.share
        heads = {agent: self._heads.of(agent, agent).head for agent in batch.rows}
        worth = {a: batch.by_place(a, h.predict(batch.features[a])) for a, h in heads.items()}
        self._judge(groups, batch, _summed(heads, batch).tolist())
        targets, optimisers = tensor(batch.targets), [head.optimiser for head in heads.values()]
        loss = descend(optimisers, lambda: mse_loss(_summed(heads, batch), targets), self._steps)
        self._metrics = {named(PARTS, "loss"): loss, named(PARTS, "trust"): trust}
        return [_weights(number, group, worth, trust) for number, group in enumerate(groups)]

    def measures(self) -> dict[str, float]:
        """Return `parts/loss` and `parts/trust`.

        They are the squared error before the step was learned from, and R^2 of returns within the
        compared sets, on responses that had not been learned from.
        """
        return self._metrics

    def state(self) -> dict[str, Any]:
        """Return the states of the heads, and the sums behind their R^2."""
        return {"heads": self._heads.state(), "fit": self._fit.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from an earlier `state`."""
        self._heads.restore(state["heads"])
        self._fit.restore(state["fit"])

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError if the agents' parts of the return could not be distinguished."""
        _check_independence(recipe)
        check_one_reward("vdn", recipe, spec)

    def _judge(self, groups: Sequence[Group], batch: Batch, predicted: Sequence[float]) -> None:
        """Measure how well the heads predicted a step's returns before learning from them."""
        self._fit.begin()
        by_place = dict(zip(batch.places, zip(predicted, batch.targets, strict=True), strict=True))
        for number, group in enumerate(groups):
            for nodes in group.baselines_over:
                guesses, returns = zip(*(by_place[number, node] for node in nodes), strict=True)
                self._fit.add(guesses, returns)


def _summed(heads: Mapping[str, Head], batch: Batch) -> Tensor:
    """Return the sum of the parts q_i of each joint action. An agent that did not act adds 0."""
    import torch

    columns = []
    for agent, head in heads.items():
        column = torch.zeros(len(batch.places))
        rows = torch.tensor(batch.rows[agent], dtype=torch.long)
        columns.append(column.index_add(0, rows, head(batch.features[agent])))
    return torch.stack(columns, dim=1).sum(1)


def _weights(
    number: int, group: Group, worth: Mapping[str, Mapping[Place, float]], trust: float
) -> Weights:
    weights: dict[Key, float] = {}
    for nodes in group.baselines_over:
        for agent in group.agents:
            parts = {
                node: q for node in nodes if (q := worth[agent].get((number, node))) is not None
            }
            mixed = _mixed(group, nodes, agent, parts, trust)
            weights |= {(*node, agent): weight for node, weight in mixed.items()}
    return weights


def _mixed(
    group: Group, nodes: Sequence[Node], agent: str, own_parts: Mapping[Node, float], trust: float
) -> dict[Node, float]:
    """Return the weights of one set. If an agent has only one response in it, only returns are
    compared.
    """
    returns = leave_one_out(np.array(group.compared(nodes, agent)))[: len(nodes)].tolist()
    by_node = dict(zip(nodes, returns, strict=True))
    if len(own_parts) < 2:
        return by_node
    parts = zip(own_parts, leave_one_out(np.array(list(own_parts.values()))).tolist(), strict=True)
    return by_node | {node: trust * part + (1 - trust) * by_node[node] for node, part in parts}
