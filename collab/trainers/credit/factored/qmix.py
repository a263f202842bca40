"""QMIX: the return is a monotone mixture of the agents' parts. Biased; see `vdn` first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collab.recipe import Recipe, TrainerSpec
from collab.runs.metric_names import PARTS, named
from collab.trainers.credit.counterfactual.table import Vector, leave_one_out
from collab.trainers.credit.critics.values import Place, joint_history
from collab.trainers.credit.factored.rule import Batch, Factored, read
from collab.trainers.credit.group import Group, Key, Weights

if TYPE_CHECKING:
    from torch import Tensor

    from collab.trainers.credit.factored.mixer import Mixer


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
        """As `Algorithm.credit`."""
        from collab.trainers.credit.factored.mixer import fit_mixed, parts

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
            found = values[:, column].double().numpy(), slopes[:, column].double().numpy()
            for (number, node), weight in _paid(groups, batch, agent, *found).items():
                weights[number][*node, agent] = weight
        return list(weights)

    def measures(self) -> dict[str, float]:
        """As of `vdn`, though `parts/trust` weighs nothing here; and `parts/biased`, 1 always."""
        return self._told

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:  # noqa: ARG002
        """What is wrong with it."""
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
        from collab.trainers.credit.factored.mixer import Mixer

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
    found: dict[Place, float] = {}
    for number, group in enumerate(groups):
        for nodes in group.baselines_over:
            places = [(number, node) for node in nodes if (number, node) in acted]
            if places:
                rows = [acted[place] for place in places]
                paid = leave_one_out(values[rows]) * slopes[rows]
                found |= zip(places, paid.tolist(), strict=True)
    return found
