"""The joint actions of the last steps, and which of them were the best and the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

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
