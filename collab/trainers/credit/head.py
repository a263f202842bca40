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
    """Predicts a number from a hidden state: linear, or with one tanh layer of `width`.

    It uses float32 for any dtype of the model, because bfloat16 cannot resolve small differences in
    value.
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
        """Return the prediction for each row of [n, hidden]: [n]. Rows are normalized first."""
        normed = functional.layer_norm(features.float().cpu(), (self._size,))
        values: Tensor = self.network(normed)[:, 0]
        return values

    @torch.no_grad()
    def predict(self, features: Tensor) -> list[float]:
        """Return the predictions without gradient."""
        values: list[float] = self(features).tolist()
        return values

    def fit(self, features: Tensor, targets: Sequence[float], steps: int = 1) -> float:
        """Take steps towards the targets by squared error, and return the error before the first
        step."""
        wanted = torch.tensor(targets, dtype=torch.float32)
        first = 0.0
        for step in range(steps):
            self.optimiser.zero_grad()
            loss = functional.mse_loss(self(features), wanted)
            torch.autograd.backward(loss)
            self.optimiser.step()
            if step == 0:
                first = float(loss.detach())
        return first

    def state(self) -> dict[str, Any]:
        """Return the parameters and the optimizer's moments."""
        parts = {"network": self.network.state_dict(), "optimiser": self.optimiser.state_dict()}
        return copy.deepcopy(parts)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from an earlier `state`.

        Raises:
            RuntimeError: the shapes differ.
        """
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])


def linear(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    """Make a layer whose weights come from `generator` alone.

    Otherwise, the layer would draw from torch's global random state, which a resumed run has
    already restored when its rule makes the layer.
    """
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")  # draws no random numbers
    nn.init.normal_(layer.weight, std=INITIAL_STD, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
