"""Attention of rows that share their prompts, for one new token of each at a time.

The keys and values of a prompt are held and multiplied once for all of its rows: their queries
stand side by side, as if one row asked them all. One softmax goes over a prompt's tokens and a
row's own, so nothing is approximated. Keys are laid out [size, time], in which the products of a
single query are several times faster on a CPU.
"""

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

from collab.models.local.fast.roomy_cache import ROOM
from collab.models.local.kv_cache import KVCache

NAME = "collab_shared"
SMALL = 1 << 19
"""Numbers of prompts' keys for all rows up to which a CPU multiplies faster in float32."""


class Layout:
    """Which prompt each row of a batch goes on with; the same in every layer."""

    def __init__(self, mask: Tensor, dtype: torch.dtype) -> None:
        """`mask` [prompts, time] is 0 where a prompt is padded; one row for each prompt.

        `dtype` is that of scores.
        """
        self._shown, self._dtype = mask.bool(), dtype
        self.kept: list[int] = []
        """The prompts that some row goes on with."""
        self.owners: list[int] = []
        """For each row, the position of its prompt in `kept`."""
        self.mask: Tensor | None = None
        """[rows, 1, 1, time], added to scores; None where no prompt is padded."""
        self._shape = 0, 0
        # [prompts, width], rows, and [rows], positions in it; None where rows are in that order
        self._rows: Tensor | None = None
        self._places: Tensor | None = None
        self.go_on(range(len(mask)))

    def go_on(self, owners: Sequence[int]) -> None:
        """`owners` are the prompts of the rows, [rows]; prompts without any are let go."""
        self.kept = sorted(set(owners))
        self.owners = [self.kept.index(owner) for owner in owners]
        members: list[list[int]] = [[] for _ in self.kept]
        places = []
        for row, owner in enumerate(self.owners):
            places.append((owner, len(members[owner])))
            members[owner].append(row)
        width = max(map(len, members))
        padded = [rows + rows[:1] * (width - len(rows)) for rows in members]
        device = self._shown.device
        self._shown = self._shown[torch.tensor(self.kept, device=device)]
        flat = [owner * width + place for owner, place in places]
        self._shape = len(members), width
        self._rows = self._places = None
        if flat != list(range(len(members) * width)):
            self._rows = torch.tensor(padded, device=device)
            self._places = torch.tensor(flat, device=device)
        self.mask = None
        if not bool(self._shown.all()):
            mask = torch.zeros(self._shown.shape, dtype=self._dtype, device=device)
            mask.masked_fill_(~self._shown, torch.finfo(self._dtype).min)
            self.mask = mask[torch.tensor(self.owners, device=device)][:, None, None]

    def by_prompt(self, x: Tensor) -> Tensor:
        """From [rows, heads, group, n] to [prompts, heads, width * group, n], side by side."""
        prompts, width = self._shape
        x = x.view(prompts, width, *x.shape[1:]) if self._rows is None else x[self._rows]
        return x.transpose(1, 2).reshape(prompts, x.shape[2], -1, x.shape[-1])

    def by_row(self, x: Tensor, group: int) -> Tensor:
        """The way back."""
        prompts, width = self._shape
        x = x.view(prompts, -1, width, group, x.shape[-1]).transpose(1, 2).flatten(0, 1)
        return x if self._places is None else x[self._places]


class SharedLayer(DynamicLayer):  # type: ignore[misc]
    """One layer's keys and values: of each prompt once, and of each row's own tokens."""

    def __init__(self, keys: Tensor, values: Tensor, layout: Layout) -> None:
        """`keys` and `values` of the prompts: [prompts, heads, time, size]."""
        super().__init__()
        self.lazy_initialization(keys, values)
        self._layout = layout
        self._keys = keys.transpose(2, 3).contiguous()  # [prompts, heads, size, time]
        self._values = values  # [prompts, heads, time, size]
        self._own_keys = self._keys.new_empty(len(keys), *self._keys.shape[1:3], 0)
        self._own_values = values[:, :, :0]
        self._own = 0

    def get_seq_length(self) -> int:
        return int(self._keys.shape[-1]) + self._own

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *args: Any,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Take one token of each row, [rows, heads, 1, size]; `attend` reads them from here."""
        if self._own == self._own_keys.shape[-1]:
            self._suit()
            self._own_keys = functional.pad(self._own_keys, (0, ROOM))
            self._own_values = functional.pad(self._own_values, (0, 0, 0, ROOM))
        self._own_keys[..., self._own] = key_states[:, :, 0]
        self._own_values[:, :, self._own] = value_states[:, :, 0]
        self._own += 1
        return key_states, value_states

    def select(self, rows: Tensor, prompts: Tensor) -> None:
        """Go on with these rows, and with these of the prompts."""
        if len(prompts) < len(self._keys):
            self._keys, self._values = self._keys[prompts], self._values[prompts]
        self._own_keys, self._own_values = self._own_keys[rows], self._own_values[rows]
        self._suit()

    def _suit(self) -> None:
        """Few and short rows go on in float32: small products in other types take longer there."""
        size = self._keys[0].numel() * len(self._own_keys)
        narrow = self._keys.device.type == "cpu" and self._keys.element_size() < 4
        if narrow and size <= SMALL:
            self._keys, self._values = self._keys.float(), self._values.float()
            self._own_keys, self._own_values = self._own_keys.float(), self._own_values.float()

    def attend(self, query: Tensor) -> Tensor:
        """What the queries [rows, query heads, 1, size], scaled, read: the same shape."""
        layout, own = self._layout, self._own
        asked = query.to(self._keys.dtype)
        asked = asked.reshape(len(query), self._keys.shape[1], -1, query.shape[-1])
        shared = layout.by_row(layout.by_prompt(asked) @ self._keys, asked.shape[2])
        if layout.mask is not None:
            shared = shared + layout.mask
        scores = torch.cat([shared, asked @ self._own_keys[..., :own]], dim=-1)
        weights = scores.softmax(dim=-1)  # [rows, heads, group, time]
        read = layout.by_row(layout.by_prompt(weights[..., :-own]) @ self._values, asked.shape[2])
        read = read + weights[..., -own:] @ self._own_values[:, :, :own]
        return read.to(query.dtype).reshape(query.shape)


class SharedPrefixCache(KVCache):
    """A cache in which rows that `select` makes of one prompt attend to it together."""

    _layout: Layout

    def read(self, ids: Tensor, mask: Tensor) -> Tensor:
        """As `KVCache.read`."""
        logits = super().read(ids, mask)
        layers = self._cache.layers
        self._layout = Layout(mask, layers[0].keys.dtype)
        self._cache.layers = [SharedLayer(x.keys, x.values, self._layout) for x in layers]
        self._mask = None
        return logits

    def extend(self, tokens: Tensor) -> Tensor:
        """As `KVCache.extend`."""
        with sharing(self._config, self._cache.layers):
            return super().extend(tokens)

    def _select_cached(self, rows: Sequence[int], keep: Tensor) -> None:
        self._layout.go_on([self._layout.owners[row] for row in rows])
        prompts = torch.tensor(self._layout.kept, device=keep.device)
        for layer in self._cache.layers:
            layer.select(keep, prompts)


_LAYERS: ContextVar[Sequence[SharedLayer]] = ContextVar("layers")


@contextmanager
def sharing(config: Any, layers: Sequence[SharedLayer]) -> Iterator[None]:
    """While entered, the model of `config` attends to what `layers` hold."""
    before = config._attn_implementation
    token = _LAYERS.set(layers)
    config._attn_implementation = NAME
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
    """As transformers calls it; returns [rows, 1, query heads, size]."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    read = _LAYERS.get()[module.layer_idx].attend(query * scaling)
    return read.transpose(1, 2), None


AttentionInterface.register(NAME, _attention)
