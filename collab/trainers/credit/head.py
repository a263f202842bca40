"""A critic: a linear head on the hidden states of a frozen model."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from collab.stats import deviation
from collab.trainers.credit.base import FrozenModel

INITIAL_STD = 0.02
"""Standard deviation of the initial weights. Biases begin at 0."""


class Critic:
    """Predicts the value of a history from its hidden state, by a linear layer.

    It uses float32 for any dtype of the model, because bfloat16 cannot resolve small differences in
    value. The initial weights do not depend on torch's global random state, which a resumed run has
    already restored when it makes the critic.
    """

    def __init__(self, model: FrozenModel, rate: float) -> None:
        self.model = model
        layer = nn.Linear(model.hidden_size, 1, device="meta").to_empty(device="cpu")  # no draw
        nn.init.normal_(layer.weight, std=INITIAL_STD, generator=torch.Generator().manual_seed(0))
        nn.init.zeros_(layer.bias)
        self._network = nn.Sequential(layer)
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=rate)
        self._features: Tensor | None = None
        self.metrics: dict[str, float] = {}
        """`loss`, the mean squared error, and `explained`, the share of variance, of `learn`."""

    async def values(self, histories: Sequence[Sequence[int]]) -> list[float]:
        """Return the value of each history, as tokens. The next `learn` refers to them."""
        self._features = None
        if not histories:
            return []
        self._features = await self.model.features(histories)
        with torch.no_grad():
            values: list[float] = self._predict(self._features).tolist()
        return values

    def learn(self, targets: Sequence[float]) -> None:
        """Take one optimizer step that moves the values of the last `values` toward `targets`."""
        if self._features is None:
            return
        self._optimizer.zero_grad()
        target = torch.tensor(targets, dtype=torch.float32)
        loss = functional.mse_loss(self._predict(self._features), target)
        torch.autograd.backward(loss)
        self._optimizer.step()
        error, spread = float(loss.detach()), deviation(targets) ** 2
        self.metrics = {"loss": error, "explained": 1 - error / spread if spread else 0.0}

    def _predict(self, features: Tensor) -> Tensor:
        """Return the value of each row of [n, hidden]: [n]. Rows are normalized first."""
        normed = functional.layer_norm(features.float().cpu(), features.shape[1:])
        values: Tensor = self._network(normed)[:, 0]
        return values

    def state(self) -> dict[str, Any]:
        """Return the parameters and the optimizer's state, for a checkpoint."""
        parts = {"network": self._network.state_dict(), "optimizer": self._optimizer.state_dict()}
        return copy.deepcopy(parts)

    def restore(self, state: Mapping[str, Any]) -> None:
        self._network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
