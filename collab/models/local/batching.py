"""Splits requests into padded batches that keep to a token budget."""

from __future__ import annotations

from collections.abc import Sequence


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
