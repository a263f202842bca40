"""Whether rows of a model can attend to their prompts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from collab.models.local.fast.equivalence import REFUSALS, Pass, agree, watched
from collab.models.local.fast.shared_prefix import attends_to_all
from collab.models.local.kv_cache import Prefixes
from collab.models.local.multi_lora import BASE, bare, unwrapped

_CAN_SHARE: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def can_share(module: Any) -> bool:
    """Whether the rows of a causal language model can attend to their prompts together.

    What its configuration leaves open, a probe decides, once for each model.
    """
    base = unwrapped(module)
    if base not in _CAN_SHARE:
        config = base.config.get_text_config()
        _CAN_SHARE[base] = attends_to_all(config) and _agrees(base)
    return _CAN_SHARE[base]


def _agrees(base: Any) -> bool:
    """Whether layers that share make of the same states what layers make that do not."""
    try:
        apart = _probe(base, shared=False)
        states = iter([layer.came for layer in apart])
        together = _probe(base, shared=True, given=lambda _: next(states))
    except REFUSALS:
        return False
    return agree(together, apart)


@torch.no_grad()
def _probe(
    base: Any, *, shared: bool, given: Callable[[Tensor], Tensor] = lambda states: states
) -> list[Pass]:
    """Of three rows of two prompts, with tokens of their own; layers read what is `given`."""
    vocabulary = base.config.get_text_config().vocab_size
    ids = torch.tensor([[7, 5, 3], [2, 4, 6]], device=base.device) % vocabulary
    prefixes = Prefixes(base, [BASE, BASE], shared=shared)
    with bare(base):
        prefixes.read(ids, torch.tensor([[0, 1, 1], [1, 1, 1]], device=base.device))
        prefixes.select([1, 0, 1])
        with watched(base, given) as passes:
            for tokens in ([1, 2, 3], [4, 5, 6]):
                prefixes.extend(torch.tensor(tokens, device=base.device) % vocabulary)
    return passes
