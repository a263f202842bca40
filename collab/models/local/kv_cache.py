"""What a model has read of each row of a batch, and what it says comes next."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.cache_utils import DynamicLayer

from collab.models.local.fast.shared_prefix import ROOM, Layout, SharedLayer, sharing
from collab.models.local.multi_lora import Mixture, can_mix, unwrapped


class Prefixes:
    """The tokens of each row so far, as the model holds them: keys and values, and positions."""

    def __init__(self, module: Any, adapters: Sequence[str], *, shared: bool) -> None:
        """`adapters` are those of the rows, by name.

        With `shared`, rows that `select` makes of one prompt attend to it together.
        """
        base = unwrapped(module)
        self.mixture = Mixture(adapters) if can_mix(module) else None
        self._adapters = list(adapters)
        self._module = base if self.mixture else module
        self._config = base.config.get_text_config()
        # Rows that have ended go on beside others, past the positions that a model may have.
        self._last = (getattr(self._config, "max_position_embeddings", None) or sys.maxsize) - 1
        self._taken = set(inspect.signature(base.forward).parameters)
        self._shared = shared
        self._layout: Layout | None = None
        self._cache: Any = None
        self._mask: Tensor | None = None  # [rows, time], None where there is no padding
        self._next: Tensor | None = None  # [rows, 1], the position of the next token

    def read(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Begin with left-padded prompts, both [rows, time]; returns logits [rows, vocabulary]."""
        positions = (mask.cumsum(dim=-1) - 1).clamp(min=0)
        self._mask = None if bool(mask.all()) else mask
        self._next = positions[:, -1:] + 1
        logits = self._forward(ids, positions)
        layers = self._cache.layers
        if self._shared:
            self._layout = layout = Layout(mask, layers[0].keys.dtype)
            self._cache.layers = [SharedLayer(x.keys, x.values, layout) for x in layers]
            self._mask = None
        else:
            _make_room(layers)
        return logits

    def extend(self, tokens: Tensor) -> Tensor:
        """Read one more token of every row, [rows]; returns logits [rows, vocabulary]."""
        assert self._next is not None, "read comes first"
        if self._mask is not None:
            self._mask = functional.pad(self._mask, (0, 1), value=1)
        with sharing(self._config, self._cache.layers) if self._layout else nullcontext():
            logits = self._forward(tokens[:, None], self._next)
        self._next = (self._next + 1).clamp(max=self._last)
        return logits

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows, in this order; some may be taken more than once."""
        assert self._next is not None, "read comes first"
        keep = torch.tensor(rows, device=self._next.device)
        if self._layout:
            self._layout.go_on([self._layout.owners[row] for row in rows])
            prompts = torch.tensor(self._layout.kept, device=keep.device)
            for layer in self._cache.layers:
                layer.select(keep, prompts)
        else:
            self._cache.batch_select_indices(keep)
        self._next = self._next[keep]
        self._adapters = [self._adapters[row] for row in rows]
        if self._mask is not None:
            self._mask = self._mask[keep]
        if self.mixture:
            self.mixture.select(rows)

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        options: dict[str, Any] = {"position_ids": positions, "logits_to_keep": 1}
        options = {name: value for name, value in options.items() if name in self._taken}
        if not self.mixture:
            options["adapter_names"] = self._adapters
        output = self._module(
            input_ids=ids,
            attention_mask=self._mask,
            past_key_values=self._cache,
            use_cache=True,
            **options,
        )
        self._cache = output.past_key_values
        logits: Tensor = output.logits[:, -1]
        return logits.float()


def _make_room(layers: list[Any]) -> None:
    for number, layer in enumerate(layers):
        if type(layer) is DynamicLayer and layer.is_initialized:
            layers[number] = _Roomy(layer.keys, layer.values)


class _Roomy(DynamicLayer):  # type: ignore[misc]
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
