"""Sums and mixtures of the parts of a return, and how their heads are fitted."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from collab.trainers.credit.critics.head import Head, descend, linear
from collab.trainers.credit.factored.rule import Batch


def parts(heads: Mapping[str, Head], batch: Batch) -> Tensor:
    """q_i of each joint action, 0 where an agent did not act: [joint actions, agents]."""
    columns = []
    for agent, head in heads.items():
        column = torch.zeros(len(batch.places))
        rows = torch.tensor(batch.rows[agent], dtype=torch.long)
        columns.append(column.index_add(0, rows, head(batch.features[agent])))
    return torch.stack(columns, dim=1)


def fit_sum(heads: Mapping[str, Head], batch: Batch, steps: int) -> float:
    """Move the sums of parts towards the returns; returns the squared error before."""
    targets = torch.tensor(batch.targets)
    optimisers = [head.optimiser for head in heads.values()]
    return descend(
        optimisers, lambda: functional.mse_loss(parts(heads, batch).sum(1), targets), steps
    )


WIDTH = 8
"""Of the mixer's hidden layer."""


class Mixer:
    """Q_tot = |w2| elu(|W1| q + b1) + b2, monotone in every q_i; QMIX, arXiv 1803.11485.

    W1, b1, w2 and b2 are linear in a hidden state of the joint history, b2 with one hidden layer:
    they are the hypernetwork. In float32, as `Head` is. The state is read at length 1: weights that
    move faster than the parts come to 0 before these tell right from wrong, and no slope is left.
    """

    def __init__(self, hidden_size: int, n_agents: int, *, rate: float) -> None:
        self._size, self._n_agents = hidden_size, n_agents
        make = partial(linear, generator=torch.Generator().manual_seed(1))
        self._w1, self._b1 = make(hidden_size, n_agents * WIDTH), make(hidden_size, WIDTH)
        self._w2 = make(hidden_size, WIDTH)
        self._b2 = nn.Sequential(make(hidden_size, WIDTH), nn.ReLU(), make(WIDTH, 1))
        self.network = nn.ModuleList([self._w1, self._b1, self._w2, self._b2])
        for layer in (self._w1, self._w2):  # as the sum at first, about
            nn.init.ones_(layer.bias)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=rate)

    def __call__(self, values: Tensor, states: Tensor) -> Tensor:
        """Q_tot of each row: of parts [n, agents] and hidden states [n, hidden], to [n]."""
        read = functional.layer_norm(states.float().cpu(), (self._size,)) / sqrt(self._size)
        w1 = self._w1(read).abs().view(-1, self._n_agents, WIDTH)
        hidden = functional.elu((values[:, :, None] * w1).sum(1) + self._b1(read))
        mixed: Tensor = (hidden * self._w2(read).abs()).sum(1) / WIDTH + self._b2(read)[:, 0]
        return mixed

    def slopes(self, values: Tensor, states: Tensor) -> Tensor:
        """dQ_tot/dq_i, none below 0: [n, agents]."""
        given = values.detach().requires_grad_()
        [found] = torch.autograd.grad(self(given, states).sum(), given)
        return found

    def state(self) -> dict[str, Any]:
        """Parameters and the optimiser's moments."""
        kept = {"network": self.network.state_dict(), "optimiser": self.optimiser.state_dict()}
        return copy.deepcopy(kept)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave; raises RuntimeError where the shapes are others."""
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])


def fit_mixed(
    heads: Mapping[str, Head], mixer: Mixer, batch: Batch, states: Tensor, steps: int
) -> float:
    """Move what is mixed of the parts towards the returns; returns the squared error before."""
    targets = torch.tensor(batch.targets)
    optimisers = [mixer.optimiser, *(head.optimiser for head in heads.values())]
    return descend(
        optimisers,
        lambda: functional.mse_loss(mixer(parts(heads, batch), states), targets),
        steps,
    )
