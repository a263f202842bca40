"""Responses laid out in rows of a forward pass: what they begin with in common only once.

A row is a prefix tree of token sequences. A token's position is its depth, and attention sees a
token's ancestors only, so that every state is what it would be in a row of its own, and so is
every gradient. The G responses to a prompt cost the prompt once, and a later turn, where its
prompt continues the tokens of an earlier one, costs what it adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from collab.trainers.samples import Sample

Row = list[Sample]

MASKED_PAIR_COST = 1.7
"""Attention under a mask looks at all pairs of a row's tokens, causal attention at half of them;
and its kernels are slower; measured with SmolLM2 on a CPU."""


class Tree:
    """Token sequences that share their beginnings. Parents come before their children."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self._parents: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def add(self, sequence: Sequence[int]) -> list[int]:
        """Where the tokens of `sequence` are in the row."""
        path, node = [], -1
        for depth, token in enumerate(sequence):
            child = self._children.setdefault((node, token), len(self.tokens))
            if child == len(self.tokens):
                self.tokens.append(token)
                self.depths.append(depth)
                self._parents.append(node)
            path.append(child)
            node = child
        return path

    @property
    def is_chain(self) -> bool:
        return all(depth == place for place, depth in enumerate(self.depths))

    def seen(self, width: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which tokens each one attends to: its ancestors and itself; [width, width]."""
        seen = np.eye(width, dtype=np.bool_)  # padding sees itself, for a softmax needs something
        for node, parent in enumerate(self._parents):
            if parent >= 0:
                seen[node] |= seen[parent]
        return seen


def inputs_of(sample: Sample) -> tuple[int, ...]:
    """The tokens whose states are needed: the last token of a response predicts nothing."""
    return sample.prompt_ids + sample.token_ids[:-1]


def rows_of(samples: Sequence[Sample], budget: int, pair_cost: float | None) -> list[Row]:
    """Rows of up to `budget` tokens; one for each sample where `pair_cost` is None.

    Samples come in the order of their tokens, which brings shared beginnings together. One joins
    the row before it where that costs less than a row of its own. `pair_cost` is the cost of a
    pair of tokens in causal attention, against that of a token in all else.
    """
    if pair_cost is None:
        return [[sample] for sample in samples]
    rows: list[Row] = []
    length = 0
    last: tuple[int, ...] = ()
    for sample in sorted(samples, key=inputs_of):
        inputs = inputs_of(sample)
        alone = len(inputs)
        new = alone - _in_common(last, inputs)
        pairs = (length + new) ** 2 - length**2
        joined = new + MASKED_PAIR_COST * pair_cost * pairs
        if rows and length + new <= budget and joined < alone + pair_cost * alone**2 / 2:
            rows[-1].append(sample)
            length += new
        else:
            rows.append([sample])
            length = alone
        last = inputs
    return rows


def width(row: Row) -> int:
    """The tokens of a row."""
    tree = Tree()
    for sample in row:
        tree.add(inputs_of(sample))
    return len(tree.tokens)


def _in_common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the beginning that two sequences share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
