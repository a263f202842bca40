"""VDN and QMIX: each agent's part of the return, learned from the returns of the team."""

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
from collab.trainers.credit.counterfactual.table import Vector, leave_one_out
from collab.trainers.credit.critics import Critics, Place, joint_history
from collab.trainers.credit.group import Group, Key, Node, Weights

if TYPE_CHECKING:
    from torch import Tensor

    from collab.trainers.credit.networks import Head, Mixer


@dataclass(frozen=True)
class Batch:
    """The joint actions of a step, and the responses that they are made of."""

    places: list[Place]
    targets: list[float]
    """The return of each joint action."""
    features: dict[str, Tensor]
    """For each agent, the states of its responses: [responses, hidden]."""
    rows: dict[str, list[int]]
    """For each agent, the position in `places` of each of its responses."""

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
    """The tokens of an agent's last prompt of a turn and of its response to it.

    None where the agent did not act in that turn.
    """
    episode, turn = node
    tokens = None
    for decision in group.episodes[episode].turns[turn].decisions:
        if decision.agent == agent and decision.action.prompt_ids:
            tokens = decision.action.prompt_ids + decision.action.token_ids
    return tokens


DECAY = 0.9
"""The weight of a step's errors at the next one."""


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
        """The sums of errors and spreads."""
        return {"errors": self._errors, "spread": self._spread}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from what `state` gave."""
        self._errors, self._spread = state["errors"], state["spread"]


class Factored(Algorithm):
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
        by_place = dict(zip(batch.places, zip(predicted, batch.targets, strict=True), strict=True))
        for number, group in enumerate(groups):
            for nodes in group.baselines_over:
                guesses, returns = zip(*(by_place[number, node] for node in nodes), strict=True)
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


class VDN(Factored):
    """A_i = leave-one-out of c q_i(h_i, y_i) + (1 - c) R; sum of q_i fitted to R, squared error.

    Value decomposition (Sunehag et al., arXiv 1706.05296) used as credit. Where agents answer
    independently, the least-squares fit has q_i = the mean return of the agent's response over what
    its teammates may say, plus a constant, even if R is no sum. The gradient then has no bias but
    that of the fit. `cross` computes that mean by judging combinations; VDN is for rewards that
    cannot be computed again, such as a game's or a person's.

    c is R^2, within a task, of predictions for responses that the heads had not yet learned from,
    over the steps before; where it is not above 0 the rule is MARLOO. Each q_i is a head on the
    agent's base model, adapters off, at the last token of its response. Right for turns in which no
    trained agent sees another one's answer. It costs a forward pass over the responses.

    Options: `rate`, `width` and `steps` as those of `iac`; `model` is read in place of the bases.
    """

    name = "vdn"

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        from collab.trainers.credit.networks import fit_sum, parts

        if not groups:
            return []
        batch, trust = await read(groups, self._heads), self._fit.share
        heads = self._heads_of(batch)
        worth = {a: batch.by_place(a, h.predict(batch.features[a])) for a, h in heads.items()}
        self._judge(groups, batch, parts(heads, batch).sum(1).tolist())
        loss = fit_sum(heads, batch, self._steps)
        self._told = {named(PARTS, "loss"): loss, named(PARTS, "trust"): trust}
        return [_weights(number, group, worth, trust) for number, group in enumerate(groups)]


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
    """The weights of one set; a response that is alone in it is compared by its return only."""
    returns = leave_one_out(np.array(group.compared(nodes, agent)))[: len(nodes)].tolist()
    by_node = dict(zip(nodes, returns, strict=True))
    if len(own_parts) < 2:
        return by_node
    parts = zip(own_parts, leave_one_out(np.array(list(own_parts.values()))).tolist(), strict=True)
    return by_node | {node: trust * part + (1 - trust) * by_node[node] for node, part in parts}


class QMIX(Factored):
    """A_i = dQ_tot/dq_i (q_i(h_i, y_i) - mean of the agent's other q_i); **biased**.

    QMIX (Rashid et al., arXiv 1803.11485) used as credit. Q_tot = f(q_1 .. q_n; joint history) is
    fitted to the return by squared error. f rises with every q_i: its weights are not negative, and
    a network computes them from the joint history. There are two biases, which no amount of data
    removes: the slope dQ_tot/dq_i depends on what the teammates said, and no monotone f fits every
    return. So the weights do not follow the gradient of the return; `parts/biased` is 1 and the dry
    run says so. The rule is here for comparison; `vdn` has the same heads without these biases.

    The heads are those of `vdn`; the base model of the first agent reads the joint history. It
    costs a forward pass over responses and joint histories.
    """

    name = "qmix"

    def __init__(
        self, *, rate: float = 1e-3, width: int = 0, steps: int = 4, model: str | None = None
    ) -> None:
        super().__init__(rate=rate, width=width, steps=steps, model=model)
        self._rate = rate
        self._mixer: Mixer | None = None
        self._saved: Mapping[str, Any] | None = None

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        from collab.trainers.credit.networks import fit_mixed, parts

        if not groups:
            return []
        batch = await read(groups, self._heads)
        heads, states = self._heads_of(batch), await self._states(groups, batch)
        mixer = self._mixer_of(states.shape[1], len(heads))
        values = parts(heads, batch).detach()
        slopes = mixer.slopes(values, states)
        self._told = {named(PARTS, "trust"): self._fit.share, named(PARTS, "biased"): 1.0}
        self._judge(groups, batch, mixer(values, states).tolist())
        self._told[named(PARTS, "loss")] = fit_mixed(heads, mixer, batch, states, self._steps)
        weights: list[dict[Key, float]] = [{} for _ in groups]
        for column, agent in enumerate(heads):
            parts_and_slopes = (
                values[:, column].double().numpy(),
                slopes[:, column].double().numpy(),
            )
            for (number, node), weight in _paid(groups, batch, agent, *parts_and_slopes).items():
                weights[number][*node, agent] = weight
        return list(weights)

    def measures(self) -> dict[str, float]:
        """Metrics of `vdn`; `parts/trust` has no effect here, and `parts/biased` is always 1."""
        return self._told

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:  # noqa: ARG002
        """Warn of the bias."""
        return ["credit: biased, as 'qmix' is in general; 'vdn' has the same heads without a bias"]

    def state(self) -> dict[str, Any]:
        """The heads and the mixer."""
        mixer = self._saved if self._mixer is None else self._mixer.state()
        return {**super().state(), "mixer": mixer}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        super().restore(state)
        self._mixer, self._saved = None, state["mixer"]

    async def _states(self, groups: Sequence[Group], batch: Batch) -> Tensor:
        model = self._heads.of(groups[0].agents[0], groups[0].agents[0]).model
        texts = [joint_history(groups[number], node) for number, node in batch.places]
        return await model.features([model.encode(text) for text in texts])

    def _mixer_of(self, hidden_size: int, n_agents: int) -> Mixer:
        from collab.trainers.credit.networks import Mixer

        if self._mixer is None:
            self._mixer = Mixer(hidden_size, n_agents, rate=self._rate)
            if self._saved is not None:
                self._mixer.restore(self._saved)
        return self._mixer


def _paid(
    groups: Sequence[Group], batch: Batch, agent: str, values: Vector, slopes: Vector
) -> dict[Place, float]:
    """An agent's weights: of its parts and slopes, each [joint actions]."""
    acted = {batch.places[row]: row for row in batch.rows[agent]}
    paid_at: dict[Place, float] = {}
    for number, group in enumerate(groups):
        for nodes in group.baselines_over:
            places = [(number, node) for node in nodes if (number, node) in acted]
            if places:
                rows = [acted[place] for place in places]
                paid = leave_one_out(values[rows]) * slopes[rows]
                paid_at |= zip(places, paid.tolist(), strict=True)
    return paid_at
