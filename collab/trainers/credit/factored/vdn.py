"""VDN: the return is taken apart into a sum of what each agent's own response is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from collab.runs.metric_names import PARTS, named
from collab.trainers.credit.counterfactual.table import leave_one_out
from collab.trainers.credit.critics.values import Place
from collab.trainers.credit.factored.rule import Factored, read
from collab.trainers.credit.group import Group, Key, Node, Weights


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
        """As `Algorithm.credit`."""
        from collab.trainers.credit.factored.mixer import fit_sum, parts

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
            own = {node: q for node in nodes if (q := worth[agent].get((number, node))) is not None}
            found = _mixed(group, nodes, agent, own, trust)
            weights |= {(*node, agent): weight for node, weight in found.items()}
    return weights


def _mixed(
    group: Group, nodes: Sequence[Node], agent: str, own: Mapping[Node, float], trust: float
) -> dict[Node, float]:
    """Of one set; a response that is alone in it is compared by its return only."""
    returns = leave_one_out(np.array(group.compared(nodes, agent)))[: len(nodes)].tolist()
    found = dict(zip(nodes, returns, strict=True))
    if len(own) < 2:
        return found
    parts = zip(own, leave_one_out(np.array(list(own.values()))).tolist(), strict=True)
    return found | {node: trust * part + (1 - trust) * found[node] for node, part in parts}
