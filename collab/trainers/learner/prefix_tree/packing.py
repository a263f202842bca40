"""Responses laid out in rows of a forward pass: what they begin with in common only once.

A row is a prefix tree of token sequences. A token's position is its depth, and attention sees a
token's ancestors only, so that every state is what it would be in a row of its own, and so is
every gradient. The G responses to a prompt cost the prompt once, and a later turn, where its
prompt continues the tokens of an earlier one, costs what it adds.
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
        """The number of earlier tokens and the path, of each sequence that added tokens."""
        self._children: dict[tuple[int, int], int] = {}

    def add(self, sequence: Sequence[int]) -> list[int]:
        """Where the tokens of `sequence` are in the row."""
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
    """The tokens whose states are needed: the last token of a response predicts nothing."""
    return sample.prompt_ids + sample.token_ids[:-1]


def packed_sequences(
    samples: Sequence[Sample], budget: int, *, shared: bool
) -> list[PackedSequence]:
    """Rows of up to `budget` tokens; one for each sample where rows cannot be shared.

    Samples come in the order of their tokens, which brings shared beginnings together.
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
    """The tokens of a row."""
    tree = PrefixTree()
    for sample in row:
        tree.add(inputs_of(sample))
    return len(tree.tokens)


def _in_common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the beginning that two sequences share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def tokens_of(rows: Sequence[PackedSequence]) -> int:
    """The tokens of a micro-batch, padding included."""
    return len(rows) * max(map(width, rows))


def count_of(rows: Sequence[PackedSequence]) -> int:
    """The responses of a micro-batch."""
    return sum(map(len, rows))
