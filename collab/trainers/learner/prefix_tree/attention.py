"""Attention over rows that are prefix trees, each token to its ancestors, branch by branch.

A branch is the part that one sequence adds to its tree. Its tokens attend to their whole path. Only
pairs of tokens that may see each other are computed. A mask over the whole row would waste time on
many others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from collab.trainers.learner.prefix_tree.packing import PrefixTree
from collab.trainers.learner.to_device import tensor_on

ATTENTION_NAME = "collab_branches"


class _BranchGroup(NamedTuple):
    """Branches of similar sizes, attended to in one call. Indices are those of all rows' tokens."""

    queries: Tensor  # [branches, query]
    keys: Tensor  # [branches, key]
    unseen: Tensor  # [branches, 1, query, key]


class Branches(Protocol):
    """Attention over the branches of a batch of rows, each a path through a prefix tree."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scaling: float | None) -> Tensor:
        """Map [batch, heads, time, size] to the attention output, [batch, time, heads, size]."""


class TreeAttention:
    """Attention over branches by masks, in calls of similar sizes."""

    def __init__(self, trees: Sequence[PrefixTree], width: int, device: torch.device) -> None:
        """Group the branches by size. `width` is the rows' width, padding included."""
        offsets = range(0, len(trees) * width, width)
        branches = [
            (start, [offset + place for place in path])
            for tree, offset in zip(trees, offsets, strict=True)
            for start, path in tree.branches
        ]
        by_size: dict[tuple[int, int], list[tuple[int, list[int]]]] = {}
        for start, path in branches:
            sizes = (len(path) - start).bit_length(), len(path).bit_length()
            by_size.setdefault(sizes, []).append((start, path))
        self._groups = [_branch_group(part, device) for part in by_size.values()]
        self._masks: dict[tuple[int, int, torch.dtype], Tensor] = {}
        rows = [row for part in by_size.values() for row in _pad_rows(_new_tokens(part))]
        self._places = tensor_on(
            _first_positions([i for row in rows for i in row], len(trees) * width), device
        )

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scaling: float | None) -> Tensor:
        batch, heads, time, size = query.shape
        # [tokens, heads, size]
        queries, keys, values = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
        outputs = [
            _ungroup_heads(
                functional.scaled_dot_product_attention(
                    _group_heads(_select_tokens(queries, part.queries), key.shape[1]),
                    _select_tokens(keys, part.keys).transpose(1, 2),
                    _select_tokens(values, part.keys).transpose(1, 2),
                    attn_mask=self._mask(part, heads // key.shape[1], query.dtype),
                    scale=scaling,
                ),
                part.queries.shape[1],
            )
            for part in self._groups
        ]
        return torch.cat(outputs).index_select(0, self._places).view(batch, time, heads, size)

    def _mask(self, part: _BranchGroup, group: int, dtype: torch.dtype) -> Tensor:
        """Return the mask to add to scores, [branches, 1, group * query, key], for all layers."""
        key = id(part), group, dtype
        if key not in self._masks:
            mask = torch.zeros(part.unseen.shape, dtype=dtype, device=part.unseen.device)
            mask.masked_fill_(part.unseen, -torch.inf)
            self._masks[key] = mask.repeat(1, 1, group, 1)
        return self._masks[key]


def _branch_group(branches: Sequence[tuple[int, list[int]]], device: torch.device) -> _BranchGroup:
    """Make a part, padded with each branch's last token, which is then computed several times."""
    starts = tensor_on([start for start, _ in branches], device)[:, None, None]
    queries = tensor_on(_pad_rows(_new_tokens(branches)), device)
    keys = tensor_on(_pad_rows([path for _, path in branches]), device)
    positions = starts + torch.arange(queries.shape[1], device=device)[:, None]
    unseen = torch.arange(keys.shape[1], device=device) > positions  # [branches, query, key]
    return _BranchGroup(queries, keys, unseen[:, None])


def _new_tokens(branches: Sequence[tuple[int, list[int]]]) -> list[list[int]]:
    return [path[start:] for start, path in branches]


def _pad_rows(rows: Sequence[list[int]]) -> list[list[int]]:
    width = max(map(len, rows))
    return [row + row[-1:] * (width - len(row)) for row in rows]


def _first_positions(flat: Sequence[int], tokens: int) -> list[int]:
    """Return each token's first position in `flat`, or 0 for padding, which `flat` lacks."""
    back = dict(zip(reversed(flat), reversed(range(len(flat))), strict=True))
    return [back.get(index, 0) for index in range(tokens)]


def _select_tokens(tokens: Tensor, index: Tensor) -> Tensor:
    """Select [branches, n, heads, size] from [tokens, heads, size] by [branches, n]."""
    # Unlike indexing, index_select adds gradients up in the same order every time.
    return tokens.index_select(0, index.flatten()).view(*index.shape, *tokens.shape[1:])


def _group_heads(queries: Tensor, heads: int) -> Tensor:
    """Place queries that read the same keys next to each other, so that keys are not repeated.

    It maps [branches, query, heads * group, size] to [branches, heads, group * query, size].
    """
    branches, n, _, size = queries.shape
    split = queries.view(branches, n, heads, -1, size).permute(0, 2, 3, 1, 4)
    return split.reshape(branches, heads, -1, size)


def _ungroup_heads(outputs: Tensor, n: int) -> Tensor:
    """Undo the grouping, to [branches * query, heads * group, size]."""
    branches, heads, _, size = outputs.shape
    split = outputs.view(branches, heads, -1, n, size).permute(0, 3, 1, 2, 4)
    return split.reshape(branches * n, -1, size)


@contextmanager
def tree_attention(model: Any) -> Iterator[None]:
    """Let passes of `model` name `branches`. Backward passes must also run in this context."""
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = ATTENTION_NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def attend_by_branches(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    branches: Branches | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention function for transformers: along `branches`, or causal within a row without them.

    Query, key and value are [batch, heads, time, size], the output is [batch, time, heads, size].
    """
    if branches is not None:
        return branches.attend(query, key, value, scaling=scaling), None
    outputs, _ = sdpa_attention_forward(
        module, query, key, value, attention_mask, dropout, scaling, **kwargs
    )
    return outputs, None


AttentionInterface.register(ATTENTION_NAME, attend_by_branches)
