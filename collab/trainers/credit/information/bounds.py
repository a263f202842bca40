"""Bounds of mutual information, and the memory of joint actions that they learn from."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import log, pi
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from collab.trainers.credit.critics.head import descend

Samples = tuple[Tensor, Tensor]
"""Vectors of histories and of joint actions, [n, history] and [n, action]."""


ROUNDING = 1e-9
"""Returns that differ by no more than this share of the largest are equal."""


class Memory:
    """Keeps so many joint actions, the newest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._histories = self._actions = torch.zeros(0, 0)
        self._returns = torch.zeros(0, dtype=torch.float64)

    def add(self, histories: Tensor, actions: Tensor, returns: Sequence[float]) -> None:
        """Note what was played, and what it earned."""
        new = torch.tensor(returns, dtype=torch.float64)
        if len(self._returns):
            histories = torch.cat([self._histories, histories])
            actions = torch.cat([self._actions, actions])
            new = torch.cat([self._returns, new])
        self._histories, self._actions = histories[-self._size :], actions[-self._size :]
        self._returns = new[-self._size :]

    def best(self, share: float) -> Samples:
        """Those in the upper `share` of returns that are also above the mean."""
        return self._those(self._returns, share)

    def worst(self, share: float) -> Samples:
        """Those in the lower `share` of returns that are also below the mean."""
        return self._those(-self._returns, share)

    def state(self) -> dict[str, Tensor]:
        """What the next step depends on."""
        kept = {"histories": self._histories, "actions": self._actions, "returns": self._returns}
        return {name: value.clone() for name, value in kept.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._histories, self._actions = state["histories"], state["actions"]
        self._returns = state["returns"].double()

    def _those(self, values: Tensor, share: float) -> Samples:
        if not len(values):
            return self._histories, self._actions
        above = values - values.mean() > ROUNDING * (1 + values.abs().max())
        chosen = above & (values >= values.quantile(1 - share))
        return self._histories[chosen], self._actions[chosen]


WIDTH = 64
"""Of the hidden layer."""

RATE = 3e-3
"""The learning rate."""

FEWEST = 4
"""With fewer samples a bound is not fitted."""


class Bound(ABC):
    """A network that is fitted to pairs of a history and the joint action that followed it."""

    def __init__(self, n_in: int, n_out: int, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # and not those of GPUs, which stay
            self.network = nn.Sequential(nn.Linear(n_in, WIDTH), nn.ReLU(), nn.Linear(WIDTH, n_out))
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=RATE)

    @abstractmethod
    def loss(self, histories: Tensor, actions: Tensor) -> Tensor:
        """What is made small."""

    def fit(self, histories: Tensor, actions: Tensor, steps: int) -> bool:
        """Take steps; returns whether there were enough samples."""
        if len(histories) < FEWEST:
            return False
        descend([self.optimiser], lambda: self.loss(histories, actions), steps)
        return True

    def state(self) -> dict[str, Any]:
        """Parameters and the optimiser's moments."""
        kept = {"network": self.network.state_dict(), "optimiser": self.optimiser.state_dict()}
        return copy.deepcopy(kept)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave; raises RuntimeError where the shapes are others."""
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])


class Lower(Bound):
    """A lower bound, in the Jensen-Shannon form of MINE (arXiv 1801.04062; 1808.06670).

    E[-softplus(-T(s, u))] - E[softplus(T(s, u'))], u' the joint action of another history; at its
    best T is the log of p(u | s) / p(u).
    """

    def __init__(self, history: int, action: int) -> None:
        super().__init__(history + action, 1, seed=2)

    def each(self, histories: Tensor, actions: Tensor) -> Tensor:
        """What each pair adds to the bound: -softplus(-T), 0 at most: [n]."""
        return -softplus(-self._scores(histories, actions))

    def loss(self, histories: Tensor, actions: Tensor) -> Tensor:
        """Minus the bound; every joint action of another pair is one u'."""
        size = len(histories)
        others = self._scores(histories.repeat_interleave(size, 0), actions.repeat(size, 1)).view(
            size, size
        )
        apart = softplus(others)[~torch.eye(size, dtype=torch.bool)].mean()
        return apart - self.each(histories, actions).mean()

    def _scores(self, histories: Tensor, actions: Tensor) -> Tensor:
        scores: Tensor = self.network(torch.cat([histories, actions], dim=1))[:, 0]
        return scores


class Upper(Bound):
    """An upper bound, CLUB (arXiv 2006.12013): E[log q(u | s)] - E[log q(u' | s)].

    q is Gaussian, its means and variances made of the history, and fitted by likelihood. In nats
    for each number of a joint action's vector.
    """

    def __init__(self, history: int, action: int) -> None:
        super().__init__(history, 2 * action, seed=3)

    def each(self, histories: Tensor, actions: Tensor, others: Tensor) -> Tensor:
        """What each pair adds to the bound, with `others` [m, action] for u': [n]."""
        mean, spread = self._gaussian(histories)
        apart = _log_density(others[None], mean[:, None], spread[:, None]).mean(1)
        return _log_density(actions, mean, spread) - apart

    def loss(self, histories: Tensor, actions: Tensor) -> Tensor:
        """Minus the likelihood of q."""
        return -_log_density(actions, *self._gaussian(histories)).mean()

    def _gaussian(self, histories: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.network(histories).chunk(2, dim=1)
        return mean, torch.tanh(spread)


def _log_density(values: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """log q, the mean over a vector's numbers; `spread` is the log of the variance."""
    density: Tensor = -0.5 * ((values - mean) ** 2 / spread.exp() + spread + log(2 * pi))
    return density.mean(-1)
