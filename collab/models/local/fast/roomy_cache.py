"""Keys and values in buffers with room, so that a new token copies nothing but itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicLayer

from collab.models.local.kv_cache import KVCache

ROOM = 64
"""Tokens that a buffer has room for beyond what it holds."""


class RoomyCache(KVCache):
    """A cache whose layers grow by many tokens at a time."""

    def read(self, ids: Tensor, mask: Tensor) -> Tensor:
        """As `KVCache.read`."""
        logits = super().read(ids, mask)
        _make_room(self._cache.layers)
        return logits


def _make_room(layers: list[Any]) -> None:
    for number, layer in enumerate(layers):
        if type(layer) is DynamicLayer and layer.is_initialized:
            layers[number] = _RoomyLayer(layer.keys, layer.values)


class _RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values in buffers with room; the plain layer copies all of them for every token."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values
        self._buffers: list[Tensor] = []

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *args: Any,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        start = self.keys.shape[-2]
        end = start + key_states.shape[-2]
        if not self._buffers or self._buffers[0].shape[-2] < end:
            self._buffers = [_with_room(held, end) for held in (self.keys, self.values)]
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, start:end] = new
        self.keys, self.values = (buffer[:, :, :end] for buffer in self._buffers)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self._buffers = []


def _with_room(held: Tensor, end: int) -> Tensor:
    """[rows, heads, time, size], with more of time."""
    rows, heads, time, size = held.shape
    buffer = held.new_empty(rows, heads, end + ROOM, size)
    buffer[:, :, :time] = held
    return buffer
