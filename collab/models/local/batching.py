"""Batches: their largest number of tokens, and the requests that share one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from collab.models.local.dimensions import Dimensions, dimensions_of
from collab.models.out_of_memory import free_bytes

if TYPE_CHECKING:
    import torch


def pack(sizes: Sequence[tuple[int, int]], budget: int) -> list[list[int]]:
    """Return batches of similar length: lists of indices of `sizes`, which are (prompt tokens, new
    tokens).

    A batch counts rows x (longest prompt + most new tokens), padding included, and stays within
    `budget`. A larger request gets its own batch. The longest come first, so memory runs out at
    once or not at all. The order depends on the sizes alone.
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


CPU_BATCH_TOKENS = 32_768

MIN_BATCH_TOKENS, MAX_BATCH_TOKENS = 4096, 1 << 20
"""Bounds on the tokens of a batch on a GPU, where larger batches are not faster."""

USABLE_SHARE = 0.8
"""Usable share of the free memory. The rest is for gaps between growing tensors."""

KEY_VALUE_BYTES = 4
"""Bytes per number of the keys and values, which are held in float32."""

SPARE_TOKENS = 64
"""Largest number of spare tokens per row in the buffers of keys and values."""

SAMPLING_BYTES = 24
"""Bytes per vocabulary entry and row while the next token is drawn."""


def default_batch_tokens(module: Any, device: torch.device, width: int) -> int:
    """Return the largest number of tokens per batch on `device`, for rows of at least `width`.

    On a GPU, it depends on the memory that is free now; on a CPU, it is `CPU_BATCH_TOKENS`.
    """
    if device.type != "cuda":
        return CPU_BATCH_TOKENS
    dimensions = dimensions_of(module.config.get_text_config(), module.dtype.itemsize)
    return gpu_batch_tokens(dimensions, free_bytes(device), width)


def gpu_batch_tokens(dimensions: Dimensions, free: int, width: int) -> int:
    """Return the largest number of tokens per batch that fits into `free` bytes of a GPU, but at
    least `MIN_BATCH_TOKENS`.
    """
    reading = (8 * dimensions.hidden + 4 * dimensions.intermediate) * dimensions.bytes
    token = batch_bytes(dimensions, 1, width) / width + reading
    return min(max(int(USABLE_SHARE * free / token), MIN_BATCH_TOKENS), MAX_BATCH_TOKENS)


def batch_bytes(dimensions: Dimensions, rows: int, width: int) -> int:
    """Return the bytes of a batch of `rows` rows with `width` tokens each: its key-value cache, and
    sampling from the vocabulary.
    """
    layers = dimensions.layers + 1  # one is copied when its buffer grows
    cache = rows * (width + SPARE_TOKENS) * layers * dimensions.key_values * KEY_VALUE_BYTES
    return cache + rows * dimensions.vocabulary * SAMPLING_BYTES
