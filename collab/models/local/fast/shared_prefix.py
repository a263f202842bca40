"""Attention that reads a prompt once for all of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface
from transformers.cache_utils import DynamicLayer

from collab.models.local.batching import SPARE_TOKENS
from collab.models.local.fast.beginnings import find_beginnings
from collab.models.local.kv_cache import KVCache

ATTENTION_NAME = "collab_shared"


class Layout:
    """Assigns each row of a batch to the prompt that it continues, for all layers."""

    def __init__(self, mask: Tensor) -> None:
        """Prepare the layout. `mask` [prompts, time] is 0 where a prompt is padded, with one row
        per prompt."""
        self._unpadded = mask.bool()
        self.kept: list[int] = []
        """Prompts that at least one row continues."""
        self.owners: list[int] = []
        """Position in `kept` of each row's prompt."""
        self.mask: Tensor | None = None
        """Attention mask [rows, 1, 1, time], added to scores, or None if no prompt is padded."""
        self._shape = 0, 0
        # [prompts, width], rows, and [rows], positions in it; None where rows are in that order
        self._rows: Tensor | None = None
        self._places: Tensor | None = None
        self.set_owners(range(len(mask)))

    def set_owners(self, owners: Sequence[int]) -> None:
        """Assign the rows to prompts by number, [rows], and drop prompts without rows."""
        self.kept = sorted(set(owners))
        self.owners = [self.kept.index(owner) for owner in owners]
        members: list[list[int]] = [[] for _ in self.kept]
        places = []
        for row, owner in enumerate(self.owners):
            places.append((owner, len(members[owner])))
            members[owner].append(row)
        width = max(map(len, members))
        padded = [rows + rows[:1] * (width - len(rows)) for rows in members]
        device = self._unpadded.device
        self._unpadded = self._unpadded[torch.tensor(self.kept, device=device)]
        flat = [owner * width + place for owner, place in places]
        self._shape = len(members), width
        self._rows = self._places = None
        if flat != list(range(len(members) * width)):
            self._rows = torch.tensor(padded, device=device)
            self._places = torch.tensor(flat, device=device)
        self.mask = None
        if not bool(self._unpadded.all()):
            mask = torch.zeros(self._unpadded.shape, device=device)
            mask.masked_fill_(~self._unpadded, torch.finfo(mask.dtype).min)
            self.mask = mask[torch.tensor(self.owners, device=device)][:, None, None]

    def to_prompts(self, x: Tensor) -> Tensor:
        """Regroup [rows, heads, group, n] by prompt: [prompts, heads, width * group, n]."""
        prompts, width = self._shape
        x = x.view(prompts, width, *x.shape[1:]) if self._rows is None else x[self._rows]
        return x.transpose(1, 2).reshape(prompts, x.shape[2], -1, x.shape[-1])

    def to_rows(self, x: Tensor, group: int) -> Tensor:
        """Regroup [prompts, heads, width * group, n] by row: [rows, heads, group, n]."""
        prompts, width = self._shape
        x = x.view(prompts, -1, width, group, x.shape[-1]).transpose(1, 2).flatten(0, 1)
        return x if self._places is None else x[self._places]


class SharedLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer: one copy per prompt, and the new tokens of each row.

    They are held in float32. Scores in bfloat16 are wrong by whole units if a model's keys have
    large biases, as those of Qwen2.5 have. Such a model then repeats or skips tokens.
    """

    def __init__(self, keys: Tensor, values: Tensor, layout: Layout) -> None:
        """Start from the prompts' `keys` and `values`: [prompts, heads, time, size]."""
        super().__init__()
        self.lazy_initialization(keys, values)
        self._layout = layout
        self._keys = keys.float().transpose(2, 3).contiguous()  # [prompts, heads, size, time]
        self._values = values.float()  # [prompts, heads, time, size]
        self._new_keys = self._keys[..., :0]
        self._new_values = self._values[:, :, :0]
        self._length = 0

    def get_seq_length(self) -> int:
        """Return the number of tokens per row, padding included."""
        return int(self._keys.shape[-1]) + self._length

    def grow(self) -> None:
        """Add room for more tokens."""
        self._new_keys = functional.pad(self._new_keys, (0, SPARE_TOKENS))
        self._new_values = functional.pad(self._new_values, (0, 0, 0, SPARE_TOKENS))

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *args: Any,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Append one token per row, [rows, heads, 1, size], for `attend`. Return both arguments."""
        if self._length == self._new_keys.shape[-1]:
            self.grow()
        self._new_keys[..., self._length] = key_states[:, :, 0]
        self._new_values[:, :, self._length] = value_states[:, :, 0]
        self._length += 1
        return key_states, value_states

    def select(self, rows: Tensor, prompts: Tensor) -> None:
        """Keep some rows and prompts, by their indices: `rows` is [kept rows], `prompts` [kept
        prompts].
        """
        if len(prompts) < len(self._keys):
            self._keys, self._values = self._keys[prompts], self._values[prompts]
        self._new_keys, self._new_values = self._new_keys[rows], self._new_values[rows]

    def attend(self, query: Tensor) -> Tensor:
        """Return the attention output, [rows, query heads, 1, size], of scaled float32 queries of
        that shape.
        """
        layout = self._layout
        new_keys, new_values, mask = self._new_tokens()
        length = new_keys.shape[-1]
        query_rows = query.reshape(len(query), self._keys.shape[1], -1, query.shape[-1])
        shared = layout.to_rows(layout.to_prompts(query_rows) @ self._keys, query_rows.shape[2])
        if layout.mask is not None:
            shared = shared + layout.mask
        recent = query_rows @ new_keys
        if mask is not None:
            recent = recent + mask
        scores = torch.cat([shared, recent], dim=-1)
        weights = scores.softmax(dim=-1)  # [rows, heads, group, time]
        read = layout.to_rows(
            layout.to_prompts(weights[..., :-length]) @ self._values, query_rows.shape[2]
        )
        read = read + weights[..., -length:] @ new_values
        return read.reshape(query.shape)

    def _new_tokens(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the rows' new keys, [rows, heads, size, time], and values, [rows, heads, time,
        size]. The third result is a mask [time] to add to scores, or None without hidden tokens.
        """
        length = self._length
        return self._new_keys[..., :length], self._new_values[:, :, :length], None


class SharedPrefixCache(KVCache):
    """A cache that holds each prompt once, for all rows that `select` derives from it."""

    _layout: Layout

    def read(self, ids: Tensor, mask: Tensor) -> Tensor:
        if ids.device.type == "cpu":  # on a GPU, it was not measured
            ids, mask = self._read_beginnings(ids, mask)
        logits = super().read(ids, mask)
        layers = self._cache.layers
        self._layout = Layout(mask)
        for number, layer in enumerate(layers):  # each is freed before the next one is copied
            layers[number] = self._layer(layer.keys, layer.values)
        self._mask = None
        return logits

    def _read_beginnings(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Read once what several prompts begin with. Return what is left to read, [prompts, time],
        and the mask of all tokens of the prompts.
        """
        parts = find_beginnings(ids, mask, self._adapters)
        if parts is None:
            return ids, mask
        self._select_adapters(parts.first)
        super().read(parts.ids, parts.mask)
        self._cache.reorder_cache(torch.tensor(parts.groups))
        self._select_adapters(parts.groups)
        return parts.rest, torch.cat([parts.mask[parts.groups], parts.rest_mask], dim=1)

    def _layer(self, keys: Tensor, values: Tensor) -> SharedLayer:
        """Return a layer that starts from the prompts' `keys` and `values`."""
        return SharedLayer(keys, values, self._layout)

    def _read_one(self, tokens: Tensor) -> Tensor:
        with share_prompts(self._config, self._cache.layers):
            return super()._read_one(tokens)

    def _select_cached(self, rows: Sequence[int], keep: Tensor) -> None:
        self._layout.set_owners([self._layout.owners[row] for row in rows])
        prompts = torch.tensor(self._layout.kept, device=keep.device)
        for layer in self._cache.layers:
            layer.select(keep, prompts)


_LAYERS: ContextVar[Sequence[SharedLayer]] = ContextVar("layers")


@contextmanager
def share_prompts(config: Any, layers: Sequence[SharedLayer]) -> Iterator[None]:
    """Context manager that lets the model of `config` attend to the tokens in `layers`."""
    before = config._attn_implementation
    token = _LAYERS.set(layers)
    config._attn_implementation = ATTENTION_NAME
    try:
        yield
    finally:
        config._attn_implementation = before
        _LAYERS.reset(token)


def _attention(
    module: Any,
    query: Tensor,
    *_: Tensor | None,  # new keys and values, which the layer has taken, and no mask
    scaling: float | None = None,
    **kwargs: Any,  # noqa: ARG001
) -> tuple[Tensor, None]:
    """Compute attention for transformers, and return [rows, 1, query heads, size]."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    read = _LAYERS.get()[module.layer_idx].attend(query.float() * scaling).to(query.dtype)
    return read.transpose(1, 2), None


AttentionInterface.register(ATTENTION_NAME, _attention)
