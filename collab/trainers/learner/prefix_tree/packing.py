"""Lays responses out in rows of a forward pass, with common beginnings only once.

A row is a prefix tree of token sequences. A token's position is its depth, and it attends only to
its ancestors. So every state and gradient is the same as in a separate row. For the G responses to
a prompt, the prompt is computed once. If the prompt of a later turn continues the tokens of an
earlier one, only the added tokens are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from collab.trainers.learner.samples import Sample


class PrefixTree:
    """Token sequences that share their beginnings. Parents come before their children."""

    def __init__(self, sequences: Iterable[Sequence[int]]) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.paths: list[list[int]] = []
        """For each sequence, the positions of its tokens in the row."""
        self.branches: list[tuple[int, list[int]]] = []
        """Start, the number of earlier tokens, and path of each sequence that added tokens."""
        children: dict[tuple[int, int], int] = {}
        for sequence in sequences:
            before = len(self.tokens)
            path, node = [], -1
            for depth, token in enumerate(sequence):
                child = children.setdefault((node, token), len(self.tokens))
                if child == len(self.tokens):
                    self.tokens.append(token)
                    self.depths.append(depth)
                path.append(child)
                node = child
            self.paths.append(path)
            if len(self.tokens) > before:
                self.branches.append((len(path) - len(self.tokens) + before, path))

    @property
    def is_chain(self) -> bool:
        return all(depth == place for place, depth in enumerate(self.depths))


def inputs_of(sample: Sample) -> tuple[int, ...]:
    """Return the tokens of a sample that the model reads: all but the last of the response."""
    return sample.prompt_ids + sample.token_ids[:-1]


@dataclass(frozen=True)
class PackedSequence:
    """One row of a forward pass: some responses, and the tree of their tokens."""

    samples: Sequence[Sample]

    @cached_property
    def tree(self) -> PrefixTree:
        return PrefixTree(map(inputs_of, self.samples))

    @property
    def width(self) -> int:
        """Number of tokens in the row."""
        return len(self.tree.tokens)


def pack_samples(samples: Sequence[Sample], budget: int, *, shared: bool) -> list[PackedSequence]:
    """Return the samples, packed into rows of up to `budget` tokens, or one row per sample if rows
    cannot be shared.

    Samples are sorted by their tokens, which brings common beginnings together.
    """
    if not shared:
        return [PackedSequence([sample]) for sample in samples]
    rows: list[list[Sample]] = []
    length = 0
    last: tuple[int, ...] = ()
    for sample in sorted(samples, key=inputs_of):
        inputs = inputs_of(sample)
        common = _common_length(last, inputs)
        new = len(inputs) - common
        if rows and common and length + new <= budget:
            rows[-1].append(sample)
            length += new
        else:
            rows.append([sample])
            length = len(inputs)
        last = inputs
    return [PackedSequence(row) for row in rows]


def _common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common beginning of two sequences."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def padded_tokens(rows: Sequence[PackedSequence]) -> int:
    """Return the number of tokens of a micro-batch, padding included."""
    return len(rows) * max(row.width for row in rows)
