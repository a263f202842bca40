"""Prompts of a batch that begin alike, such as those of an agent that sees a teammate's samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

MIN_SAVING = 0.2
"""Share of the tokens that must be saved, because two parts are read less efficiently than one."""


class Beginnings(NamedTuple):
    """Prompts in two parts: a beginning for each group of prompts, and the rest of each prompt."""

    first: list[int]
    """The first prompt of each group."""
    groups: list[int]
    """The group of each prompt."""
    ids: Tensor
    """Beginnings, [groups, time], left-padded."""
    mask: Tensor
    """0 where `ids` are padded."""
    rest: Tensor
    """Tokens after the beginnings, [prompts, time], left-padded. No row is empty."""
    rest_mask: Tensor
    """0 where `rest` is padded."""


def find_beginnings(ids: Tensor, mask: Tensor, adapters: Sequence[str]) -> Beginnings | None:
    """Return the prompts in two parts, or None if reading beginnings once would save little.

    Neighbors under one adapter are grouped if they share at least half of the longer one. `ids` and
    `mask`, 0 for padding, are [prompts, time].
    """
    prompts = [row[kept] for row, kept in zip(ids, mask.bool(), strict=True)]
    groups, lengths = _group(prompts, adapters)
    first = [groups.index(group) for group in range(len(lengths))]
    beginnings = [prompts[index][:n] for index, n in zip(first, lengths, strict=True)]
    rests = [prompt[lengths[group] :] for prompt, group in zip(prompts, groups, strict=True)]
    size = sum(len(part) * max(map(len, part)) for part in (beginnings, rests))
    if 0 in lengths or size > (1 - MIN_SAVING) * ids.numel():
        return None
    return Beginnings(first, groups, *_pad(beginnings), *_pad(rests))


def _group(prompts: Sequence[Tensor], adapters: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the group of each prompt, and the number of tokens at the beginning of each group."""
    groups: list[int] = []
    lengths: list[int] = []
    for index, prompt in enumerate(prompts):
        common = 0
        if index and adapters[index] == adapters[index - 1]:
            common = min(lengths[-1], _common_length(prompts[index - 1], prompt))
        if 2 * common >= max(len(prompt), len(prompts[index - 1])):
            lengths[-1] = min(common, len(prompt) - 1)
        else:
            lengths.append(len(prompt) - 1)
        groups.append(len(lengths) - 1)
    return groups, lengths


def _common_length(one: Tensor, other: Tensor) -> int:
    width = min(len(one), len(other))
    return int((one[:width] == other[:width]).cumprod(0).sum())


def _pad(rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return left-padded rows and their mask, both [rows, time]."""
    ids = pad_sequence(list(rows), batch_first=True, padding_side="left")
    masks = [row.new_ones(len(row)) for row in rows]
    return ids, pad_sequence(masks, batch_first=True, padding_side="left")
