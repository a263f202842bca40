"""Heads on frozen hidden states: small networks in float32, each with its own optimizer."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

INITIAL_STD = 0.02
"""Standard deviation of the initial weights. Biases begin at 0."""


class Head:
    """Predicts a number from a hidden state by a linear layer.

    It uses float32 for any dtype of the model, because bfloat16 cannot resolve small differences in
    value. The initial weights depend on `seed` alone, because a resumed run has already restored
    torch's global random state when it makes the head.
    """

    def __init__(self, hidden_size: int, *, rate: float, seed: int = 0) -> None:
        self._size = hidden_size
        layer = nn.Linear(hidden_size, 1, device="meta").to_empty(device="cpu")  # draws nothing
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(layer.weight, std=INITIAL_STD, generator=generator)
        nn.init.zeros_(layer.bias)
        self.network = nn.Sequential(layer)
        self.optimizer: Optimizer = torch.optim.Adam(self.network.parameters(), lr=rate)

    def __call__(self, features: Tensor) -> Tensor:
        """Return the prediction for each row of [n, hidden]: [n]. Rows are normalized first."""
        normed = functional.layer_norm(features.float().cpu(), (self._size,))
        values: Tensor = self.network(normed)[:, 0]
        return values

    @torch.no_grad()
    def predict(self, features: Tensor) -> list[float]:
        """Return the predicted value of each row of `features` [n, hidden], without gradient."""
        values: list[float] = self(features).tolist()
        return values

    def fit(self, features: Tensor, targets: Sequence[float]) -> float:
        """Take one optimizer step on the mean squared error, and return that error before the step.
        `features` is [n, hidden], `targets` [n].
        """
        self.optimizer.zero_grad()
        loss = functional.mse_loss(self(features), torch.tensor(targets, dtype=torch.float32))
        torch.autograd.backward(loss)
        self.optimizer.step()
        return float(loss.detach())

    def state(self) -> dict[str, Any]:
        """Return the parameters and the optimizer's state, for a checkpoint."""
        parts = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
        return copy.deepcopy(parts)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state` from a checkpoint.

        Raises:
            RuntimeError: the shapes differ.
        """
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
