"""Batches: how many tokens one may have, and which requests share one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from collab.models.local.dimensions import Dimensions, dimensions_of
from collab.models.out_of_memory import free_bytes

if TYPE_CHECKING:
    import torch


def pack(sizes: Sequence[tuple[int, int]], budget: int) -> list[list[int]]:
    """Indices of `sizes`, each (prompt tokens, new tokens), in batches of like length.

    A batch counts rows x (longest prompt + most new tokens), padding included, and keeps to
    `budget`; a request that is larger on its own makes a batch on its own. The order is longest
    first, so that memory runs out at once or not at all, and depends on the sizes alone.
    """
    order = sorted(range(len(sizes)), key=lambda i: (-sizes[i][0], -sizes[i][1], i))
    batches: list[list[int]] = []
    prompt = new = 0
    for index in order:
        wider = max(prompt, sizes[index][0]), max(new, sizes[index][1])
        if batches and (len(batches[-1]) + 1) * sum(wider) <= budget:
            batches[-1].append(index)
            prompt, new = wider
        else:
            batches.append([index])
            prompt, new = sizes[index]
    return batches


CPU_TOKENS = 32_768

LEAST, MOST = 4096, 1 << 20
"""On a GPU; beyond the most a batch gains nothing by more tokens."""

USABLE = 0.8
"""Of the free memory; the rest is for gaps between tensors that grow."""

HELD_BYTES = 4
"""Bytes per number of the keys and values, which are held in float32."""

DRAW_BYTES = 24
"""A token of the vocabulary takes so many bytes while the next one of a row is drawn."""


def batch_tokens(module: Any, device: torch.device, width: int) -> int:
    """Tokens of a batch on `device`, of rows that are `width` tokens wide or wider."""
    if device.type != "cuda":
        return CPU_TOKENS
    dimensions = dimensions_of(module.config.get_text_config(), module.dtype)
    return fitting_tokens(dimensions, free_bytes(device), width)


def fitting_tokens(dimensions: Dimensions, free: int, width: int) -> int:
    """Tokens of the largest batch that `free` bytes of a GPU hold."""
    reading = (8 * dimensions.hidden + 4 * dimensions.intermediate) * dimensions.bytes
    token = batch_bytes(dimensions, 1, width) / width + reading
    return min(max(int(USABLE * free / token), LEAST), MOST)


def batch_bytes(dimensions: Dimensions, rows: int, width: int) -> int:
    """Bytes of the cache of rows of so many tokens, and of drawing from the vocabulary."""
    layers = dimensions.layers + 1  # one is copied when its buffer grows
    cache = rows * width * layers * dimensions.key_values * HELD_BYTES
    return cache + rows * dimensions.vocabulary * DRAW_BYTES
