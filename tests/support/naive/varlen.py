"""Attention over variable lengths by the formula, as a reference for kernels."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor


def varlen_by_hand(  # noqa: PLR0917
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_ends: Tensor,
    key_ends: Tensor,
    max_queries: int,
    max_keys: int,
    *,
    scale: float,
    window_size: tuple[int, int],
    enable_gqa: bool,
    at_end: bool = True,
) -> Tensor:
    """Like `torch.nn.attention.varlen.varlen_attn`: causal, aligned `at_end`; [queries, ...]."""
    assert window_size == (-1, 0)
    assert enable_gqa == (query.shape[1] != key.shape[1])
    group = query.shape[1] // key.shape[1]
    ends = list(zip(query_ends.tolist(), key_ends.tolist(), strict=True))
    read: list[Any] = []
    for (q, k), (q_end, k_end) in pairwise(ends):
        n, m = q_end - q, k_end - k
        assert (n <= max_queries, m <= max_keys) == (True, True)
        keys, values = (x[k:k_end].repeat_interleave(group, dim=1) for x in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query[q:q_end], keys) * scale
        visible = torch.ones(n, m, dtype=torch.bool, device=query.device).tril(
            m - n if at_end else 0
        )
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        read.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(read)


def varlen_of_torch_2_11(  # noqa: PLR0917
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
) -> Tensor:
    """The signature of torch 2.11, in which each key head serves one query head."""
    assert scale is not None
    arguments = (query, key, value, cu_seq_q, cu_seq_k, max_q, max_k)
    return varlen_by_hand(*arguments, scale=scale, window_size=window_size, enable_gqa=False)
