"""The KV cache of a batch. It reads tokens of each row and returns the logits of the next token."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from collab.models.local.multi_lora import RowAdapters, can_mix, unwrap


class KVCache:
    """The tokens read so far in each row: keys, values and positions."""

    shrink_at = 7 / 8
    """Share of live rows at which the ended rows are removed from the batch."""

    _next_positions: Tensor
    """Position of each row's next token, [rows, 1], set by `read`."""

    def __init__(self, module: Any, adapters: Sequence[str]) -> None:
        """Start with the rows' adapters, by name."""
        base = unwrap(module)
        self.row_adapters = RowAdapters(adapters) if can_mix(module) else None
        self._adapters = list(adapters)
        self._module = base if self.row_adapters else module
        self._config = base.config.get_text_config()
        # Finished rows continue with the others, past the positions that a model may have.
        positions = getattr(self._config, "max_position_embeddings", None) or sys.maxsize
        self._last_position = positions - 1
        self._parameters = set(inspect.signature(base.forward).parameters)
        # Models of transformers before 5.24, and some of other authors, call it `past_key_values`.
        self._cache_name = "cache" if "cache" in self._parameters else "past_key_values"
        self._cache: Any = None
        self._mask: Tensor | None = None  # [rows, time], None where there is no padding

    def read(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Read left-padded prompts, or what follows the tokens read before: `ids`, [rows, time].

        `mask`, 0 for padding, also covers the tokens read before: [rows, all time]. Return the
        logits of each row's last token: [rows, vocabulary].
        """
        positions = (mask.cumsum(dim=-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        self._mask = None if bool(mask.all()) else mask
        self._next_positions = positions[:, -1:] + 1
        return self._forward(ids, positions)

    def extend(self, tokens: Tensor) -> Tensor:
        """Read one more token per row, [rows], and return the logits: [rows, vocabulary]."""
        if self._mask is not None:
            self._mask = functional.pad(self._mask, (0, 1), value=1)
        logits = self._read_one(tokens[:, None])
        self._next_positions = (self._next_positions + 1).clamp(max=self._last_position)
        return logits

    def _read_one(self, tokens: Tensor) -> Tensor:
        """Read one more token per row, [rows, 1], and return the logits: [rows, vocabulary]."""
        return self._forward(tokens, self._next_positions)

    def select(self, rows: Sequence[int]) -> None:
        """Keep the rows with these indices, in this order. An index may be repeated."""
        keep = torch.tensor(rows, device=self._next_positions.device)
        self._select_cached(rows, keep)
        self._next_positions = self._next_positions[keep]
        if self._mask is not None:
            self._mask = self._mask[keep]
        self._select_adapters(rows)

    def _select_adapters(self, rows: Sequence[int]) -> None:
        self._adapters = [self._adapters[row] for row in rows]
        if self.row_adapters:
            self.row_adapters.select(rows)

    def _select_cached(self, rows: Sequence[int], keep: Tensor) -> None:  # noqa: ARG002
        """Keep the keys and values of some rows. `keep` is `rows` as a tensor."""
        self._cache.reorder_cache(keep)  # layers of linear attention have no other selection

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        options: dict[str, Any] = {"position_ids": positions, "logits_to_keep": 1}
        options = {name: value for name, value in options.items() if name in self._parameters}
        if not self.row_adapters:
            options["adapter_names"] = self._adapters
        output = self._module(
            input_ids=ids,
            attention_mask=self._mask,
            use_cache=True,
            **{self._cache_name: self._cache},
            **options,
        )
        self._cache = output[self._cache_name]
        logits: Tensor = output.logits[:, -1]
        return logits.float()


@contextmanager
def plain_cache(module: Any, adapters: Sequence[str]) -> Iterator[KVCache]:
    """Context manager that yields an empty KV cache for one batch. Each row is read under its own
    adapter."""
    cache = KVCache(module, adapters)
    with cache.row_adapters.apply(module) if cache.row_adapters else nullcontext():
        yield cache
