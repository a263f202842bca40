"""Small networks beside the team's models: value heads, a mixer, bounds of mutual information."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import log, pi, sqrt
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import softplus
from torch.optim import Optimizer

if TYPE_CHECKING:
    from collab.trainers.credit.factored import Batch

INITIAL_STD = 0.02
"""Standard deviation of the initial weights; biases begin at 0."""


class Learned:
    """A network in float32 with an optimiser of its own."""

    network: nn.Module
    optimiser: Optimizer

    def state(self) -> dict[str, Any]:
        """Parameters and the optimiser's moments."""
        parts = {"network": self.network.state_dict(), "optimiser": self.optimiser.state_dict()}
        return copy.deepcopy(parts)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from an earlier `state`; raises RuntimeError if the shapes differ."""
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])


class Head(Learned):
    """Predicts a number from a hidden state: linear, or with one tanh layer of `width`.

    In float32 whatever the model's dtype is: bfloat16 does not resolve small differences of value.
    """

    def __init__(self, hidden_size: int, *, rate: float, width: int = 0, seed: int = 0) -> None:
        self._size = hidden_size
        generator = torch.Generator().manual_seed(seed)
        layers: list[nn.Module] = [linear(hidden_size, width or 1, generator)]
        if width:
            layers += [nn.Tanh(), linear(width, 1, generator)]
        self.network = nn.Sequential(*layers)
        self.optimiser: Optimizer = torch.optim.Adam(self.network.parameters(), lr=rate)

    def __call__(self, features: Tensor) -> Tensor:
        """The prediction for each row of [n, hidden]: [n]. Rows are brought to one scale first."""
        normed = functional.layer_norm(features.float().cpu(), (self._size,))
        values: Tensor = self.network(normed)[:, 0]
        return values

    @torch.no_grad()
    def predict(self, features: Tensor) -> list[float]:
        """The same, without gradient."""
        values: list[float] = self(features).tolist()
        return values

    def fit(self, features: Tensor, targets: Sequence[float], steps: int = 1) -> float:
        """Take steps towards the targets by squared error; returns the error before the first."""
        wanted = torch.tensor(targets, dtype=torch.float32)
        return self.descend(lambda: functional.mse_loss(self(features), wanted), steps)

    def descend(self, loss: Callable[[], Tensor], steps: int = 1) -> float:
        """Take steps down `loss`, a scalar; returns its first value."""
        return descend([self.optimiser], loss, steps)


def linear(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    """A layer whose weights come from `generator` alone.

    A layer made in the usual way draws from torch's global state, which a resumed run has restored
    by the time at which its rule makes the layer.
    """
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")  # nothing is drawn
    nn.init.normal_(layer.weight, std=INITIAL_STD, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def descend(optimisers: Sequence[Optimizer], loss: Callable[[], Tensor], steps: int = 1) -> float:
    """Take steps down `loss`, a scalar, with several optimisers; returns its first value."""
    first = 0.0
    for step in range(steps):
        for optimiser in optimisers:
            optimiser.zero_grad()
        value = loss()
        torch.autograd.backward(value)
        for optimiser in optimisers:
            optimiser.step()
        if step == 0:
            first = float(value.detach())
    return first


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


MIXER_WIDTH = 8
"""Units of the mixer's hidden layer."""


class Mixer(Learned):
    """Q_tot = |w2| elu(|W1| q + b1) + b2, monotone in every q_i; QMIX, arXiv 1803.11485.

    W1, b1, w2 and b2 are linear in a hidden state of the joint history, b2 with one hidden layer:
    they are the hypernetwork. In float32, as `Head` is. The state is read at length 1: weights that
    move faster than the parts come to 0 before these tell right from wrong, and no slope is left.
    """

    def __init__(self, hidden_size: int, n_agents: int, *, rate: float) -> None:
        self._size, self._n_agents = hidden_size, n_agents
        make = partial(linear, generator=torch.Generator().manual_seed(1))
        self._w1, self._b1 = (
            make(hidden_size, n_agents * MIXER_WIDTH),
            make(hidden_size, MIXER_WIDTH),
        )
        self._w2 = make(hidden_size, MIXER_WIDTH)
        self._b2 = nn.Sequential(make(hidden_size, MIXER_WIDTH), nn.ReLU(), make(MIXER_WIDTH, 1))
        self.network = nn.ModuleList([self._w1, self._b1, self._w2, self._b2])
        for layer in (self._w1, self._w2):  # as the sum at first, about
            nn.init.ones_(layer.bias)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=rate)

    def __call__(self, values: Tensor, states: Tensor) -> Tensor:
        """Q_tot of each row: of parts [n, agents] and hidden states [n, hidden], to [n]."""
        read = functional.layer_norm(states.float().cpu(), (self._size,)) / sqrt(self._size)
        w1 = self._w1(read).abs().view(-1, self._n_agents, MIXER_WIDTH)
        hidden = functional.elu((values[:, :, None] * w1).sum(1) + self._b1(read))
        mixed: Tensor = (hidden * self._w2(read).abs()).sum(1) / MIXER_WIDTH + self._b2(read)[:, 0]
        return mixed

    def slopes(self, values: Tensor, states: Tensor) -> Tensor:
        """dQ_tot/dq_i, none below 0: [n, agents]."""
        given = values.detach().requires_grad_()
        [slopes] = torch.autograd.grad(self(given, states).sum(), given)
        return slopes


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
        """The upper `share` of returns, if also above the mean."""
        return self._those(self._returns, share)

    def worst(self, share: float) -> Samples:
        """The lower `share` of returns, if also below the mean."""
        return self._those(-self._returns, share)

    def state(self) -> dict[str, Tensor]:
        """The joint actions that are kept."""
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


BOUND_WIDTH = 64
"""Units of the hidden layer of a bound."""

BOUND_RATE = 3e-3
"""Learning rate of a bound."""

FEWEST = 4
"""With fewer samples a bound is not fitted."""


class Bound(Learned, ABC):
    """A network that is fitted to pairs of a history and the joint action that followed it."""

    def __init__(self, n_in: int, n_out: int, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # and not those of GPUs, which stay
            self.network = nn.Sequential(
                nn.Linear(n_in, BOUND_WIDTH), nn.ReLU(), nn.Linear(BOUND_WIDTH, n_out)
            )
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=BOUND_RATE)

    @abstractmethod
    def loss(self, histories: Tensor, actions: Tensor) -> Tensor:
        """The scalar that `fit` makes small."""

    def fit(self, histories: Tensor, actions: Tensor, steps: int) -> bool:
        """Take steps; returns whether there were enough samples."""
        if len(histories) < FEWEST:
            return False
        descend([self.optimiser], lambda: self.loss(histories, actions), steps)
        return True


class Lower(Bound):
    """A lower bound, in the Jensen-Shannon form of MINE (arXiv 1801.04062; 1808.06670).

    E[-softplus(-T(s, u))] - E[softplus(T(s, u'))], u' the joint action of another history; at its
    best T is the log of p(u | s) / p(u).
    """

    def __init__(self, history: int, action: int) -> None:
        super().__init__(history + action, 1, seed=2)

    def each(self, histories: Tensor, actions: Tensor) -> Tensor:
        """The term of each pair in the bound: -softplus(-T), 0 at most: [n]."""
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
        """The term of each pair in the bound, with `others` [m, action] for u': [n]."""
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
