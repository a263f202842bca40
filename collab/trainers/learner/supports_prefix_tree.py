"""Whether a model's attention can follow prefix trees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from collab.models.local.fast.equivalence import REFUSALS, Pass, equivalent, watched
from collab.models.local.fast.full_attention import attends_to_all
from collab.models.local.multi_lora import unwrapped
from collab.trainers.learner.logprobs import states
from collab.trainers.learner.prefix_tree.packing import PackedSequence, PrefixTree, inputs_of
from collab.trainers.learner.samples import Sample

PROBES, PROBE_TOKENS = 8, 4
"""Siblings of the probe, and the tokens of each and of their prompt."""


def supports_prefix_tree(model: Any, device: torch.device) -> bool:
    """Whether responses can share a row with what they begin with in common.

    Not where attention is over a window or changes its scores, nor where states run on from token
    to token. What the configuration leaves open, a probe decides.
    """
    return attends_to_all(model.config.get_text_config()) and _agrees(model, device)


@torch.no_grad()
def _agrees(model: Any, device: torch.device) -> bool:
    """Whether layers make of siblings in one row what they make of them in rows of their own."""
    row = _probe(model.config.get_text_config().vocab_size)
    tree = PrefixTree()
    paths = [tree.add(inputs_of(sample)) for sample in row]
    alone: list[Tensor] = []

    def given(came: Tensor) -> Tensor:
        """The row's states, [1, time, hidden], where siblings have them that are alone."""
        found, own = came.clone(), alone.pop(0)
        for sibling, path in enumerate(paths):
            found[0, path] = own[sibling, : len(path)]
        return found

    try:
        with watched(unwrapped(model)) as apart:
            states(model, [[sample] for sample in row], device)
        alone += [layer.came for layer in apart]
        with watched(unwrapped(model), given) as together:
            states(model, [row], device)
    except REFUSALS:
        return False
    return equivalent(
        [Pass(*(_along(x, paths) for x in layer)) for layer in together],
        [Pass(*(x[:, : len(paths[0])] for x in layer)) for layer in apart],
    )


def _along(row: Tensor, paths: list[list[int]]) -> Tensor:
    """The states on each path, [siblings, time, hidden], of [1, time, hidden]."""
    return row[0, torch.tensor(paths, device=row.device)]


def _probe(vocabulary: int) -> PackedSequence:
    def tokens(start: int) -> tuple[int, ...]:
        return tuple((start + 7 * n) % vocabulary for n in range(PROBE_TOKENS))

    prompt = tokens(0)
    return [
        Sample("", prompt, tokens(n + 1), (0.0,) * PROBE_TOKENS, 1.0, 1.0, 1.0)
        for n in range(PROBES)
    ]
