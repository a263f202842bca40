"""Lays responses out in rows of a forward pass, with common beginnings only once.

A row is a prefix tree of token sequences. A token's position is its depth, and it attends only to
its ancestors, so every state and gradient is the same as in a separate row. For the G responses to
a prompt, the prompt is computed once. If the prompt of a later turn continues the tokens of an
earlier one, only the added tokens are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from collab.trainers.learner.samples import Sample

PackedSequence = list[Sample]


class PrefixTree:
    """Token sequences that share their beginnings. Parents come before their children."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.branches: list[tuple[int, list[int]]] = []
        """Start and path of each sequence that added tokens. The start is the number of earlier
        tokens."""
        self._children: dict[tuple[int, int], int] = {}

    def add(self, sequence: Sequence[int]) -> list[int]:
        """Add a sequence, and return the positions of its tokens in the row."""
        before = len(self.tokens)
        path, node = [], -1
        for depth, token in enumerate(sequence):
            child = self._children.setdefault((node, token), len(self.tokens))
            if child == len(self.tokens):
                self.tokens.append(token)
                self.depths.append(depth)
            path.append(child)
            node = child
        if len(self.tokens) > before:
            self.branches.append((len(path) - len(self.tokens) + before, path))
        return path

    @property
    def is_chain(self) -> bool:
        return all(depth == place for place, depth in enumerate(self.depths))


def inputs_of(sample: Sample) -> tuple[int, ...]:
    """Return the tokens of a sample that the model reads: all but the last of the response."""
    return sample.prompt_ids + sample.token_ids[:-1]


def packed_sequences(
    samples: Sequence[Sample], budget: int, *, shared: bool
) -> list[PackedSequence]:
    """Return the samples, packed into rows of up to `budget` tokens, or one row per sample if rows
    cannot be shared.

    Samples are sorted by their tokens, which brings common beginnings together.
    """
    if not shared:
        return [[sample] for sample in samples]
    rows: list[PackedSequence] = []
    length = 0
    last: tuple[int, ...] = ()
    for sample in sorted(samples, key=inputs_of):
        inputs = inputs_of(sample)
        common = _in_common(last, inputs)
        new = len(inputs) - common
        if rows and common and length + new <= budget:
            rows[-1].append(sample)
            length += new
        else:
            rows.append([sample])
            length = len(inputs)
        last = inputs
    return rows


def width(row: PackedSequence) -> int:
    """Return the number of tokens in a row."""
    tree = PrefixTree()
    for sample in row:
        tree.add(inputs_of(sample))
    return len(tree.tokens)


def _in_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common beginning of two sequences."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def tokens_of(rows: Sequence[PackedSequence]) -> int:
    """Return the number of tokens of a micro-batch, padding included."""
    return len(rows) * max(map(width, rows))


def count_of(rows: Sequence[PackedSequence]) -> int:
    """Return the number of responses of a micro-batch."""
    return sum(map(len, rows))
