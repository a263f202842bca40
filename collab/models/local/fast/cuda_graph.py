"""Decoding as a CUDA graph, because a token's kernels run faster than the host can launch them.

A graph replays the same kernels on the same memory. So all tensors that it reads keep their places
from token to token: buffers have a fixed width, and a mask hides what is not written yet. A new
graph is captured when the buffers grow or rows leave the batch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional

from collab.models.local.batching import SPARE_TOKENS
from collab.models.local.fast.shared_prefix import SharedLayer, SharedPrefixCache
from collab.models.local.multi_lora import unwrap
from collab.models.out_of_memory import is_out_of_memory

LOG = logging.getLogger("collab.models")

_UNCAPTURABLE_MODELS: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Models that could not be captured."""

_CAPTURE_LOCK = Lock()
"""Held during a capture, because torch cannot release cached memory while any thread captures."""


class TokenPlace:
    """The place of the newest token in the buffers of all layers."""

    def __init__(self, device: torch.device) -> None:
        self.length = 0
        """Tokens per row, the newest included."""
        self.index = torch.full((1,), -1, device=device)
        self.mask = torch.zeros(0, device=device)  # [width], the lowest number where unwritten

    @property
    def is_full(self) -> bool:
        """True if the buffers have no room for another token."""
        return self.length == len(self.mask)

    def grow(self) -> None:
        """Add room for more tokens."""
        lowest = torch.finfo(self.mask.dtype).min
        self.mask = functional.pad(self.mask, (0, SPARE_TOKENS), value=lowest)

    def advance(self) -> None:
        """Move to the place of the next token."""
        self.length += 1
        self.index += 1
        self.mask.index_fill_(0, self.index, 0.0)


class FixedLayer(SharedLayer):
    """A layer of keys and values in buffers that keep their places in memory."""

    place: TokenPlace

    def get_seq_length(self) -> int:
        return int(self._keys.shape[-1]) + self.place.length

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *args: Any,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Write one token per row, [rows, heads, 1, size], at `place`. Return both arguments."""
        index = self.place.index
        self._new_keys.index_copy_(3, index, key_states.transpose(2, 3).float())
        self._new_values.index_copy_(2, index, value_states.float())
        return key_states, value_states

    def _new_tokens(self) -> tuple[Tensor, Tensor, Tensor | None]:
        return self._new_keys, self._new_values, self.place.mask


class GraphedCache(SharedPrefixCache):
    """A cache whose tensors keep their places, and that replays a CUDA graph for most tokens.

    Whenever its buffers have changed, it reads one token kernel by kernel, captures the next one as
    a graph, and replays the graph for the tokens after that.
    """

    shrink_at = 1 / 2
    """Lower than for other caches, because a smaller batch needs a new graph."""
    _place: TokenPlace

    def __init__(self, module: Any, adapters: Sequence[str]) -> None:
        super().__init__(module, adapters)
        self._base = unwrap(module)
        self._graph: Any = None
        self._pool = torch.cuda.graph_pool_handle()
        self._tokens: Tensor | None = None  # [rows, 1], read by the graph
        self._logits: Tensor | None = None  # [rows, vocabulary], written by the graph
        self._is_warm = False

    def read(self, ids: Tensor, mask: Tensor) -> Tensor:
        self._place = TokenPlace(ids.device)
        return super().read(ids, mask)

    def extend(self, tokens: Tensor) -> Tensor:
        if self._place.is_full:
            self._place.grow()
            for layer in self._cache.layers:
                layer.grow()
            self._note_move()
        self._place.advance()
        logits = self._extend(tokens[:, None])
        self._next_positions.add_(1).clamp_(max=self._last_position)
        return logits

    def _select_cached(self, rows: Sequence[int], keep: Tensor) -> None:
        super()._select_cached(rows, keep)
        self._note_move()

    def _layer(self, keys: Tensor, values: Tensor) -> SharedLayer:
        layer = FixedLayer(keys, values, self._layout)
        layer.place = self._place
        return layer

    def _note_move(self) -> None:
        """Note that tensors have changed their places."""
        # The old graph stays until the next one is captured, because it holds the memory pool.
        self._tokens, self._is_warm = None, False

    def _extend(self, tokens: Tensor) -> Tensor:
        """Read the tokens [rows, 1] at the current place."""
        if not self._is_warm or self._base in _UNCAPTURABLE_MODELS:
            self._is_warm = True
            return self._read_one(tokens)
        if self._tokens is None and not self._capture(tokens):
            return self._read_one(tokens)
        assert self._tokens is not None
        assert self._logits is not None
        self._tokens.copy_(tokens)
        self._graph.replay()
        return self._logits

    def _capture(self, tokens: Tensor) -> bool:
        """Capture the reading of one token per row, or warn that the model does not allow it."""
        graph, static_tokens = torch.cuda.CUDAGraph(), tokens.clone()
        try:
            # Without the device, this thread would capture on the first GPU.
            with _CAPTURE_LOCK, torch.cuda.device(tokens.device):
                torch.cuda.empty_cache()  # the graphs of earlier batches hold cached memory
                logits = self._capture_logits(graph, static_tokens)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            _UNCAPTURABLE_MODELS[self._base] = True
            LOG.warning(
                "%s cannot be captured as a CUDA graph (%s); collab samples kernel by kernel,"
                " which is slower",
                type(self._base).__name__,
                str(error).splitlines()[0],
            )
            return False
        self._graph, self._tokens, self._logits = graph, static_tokens, logits
        return True

    def _capture_logits(self, graph: torch.cuda.CUDAGraph, tokens: Tensor) -> Tensor:
        """Capture into `graph`, on a side stream, and return the logits that it writes."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                logits = self._read_one(tokens)
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        return logits
