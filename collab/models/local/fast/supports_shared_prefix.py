"""Whether rows of a model can attend to their prompts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from collab.models.local.fast.equivalence import REFUSALS, Pass, equivalent, watched
from collab.models.local.fast.full_attention import attends_to_all
from collab.models.local.fast.shared_prefix import SharedPrefixCache
from collab.models.local.kv_cache import KVCache
from collab.models.local.multi_lora import BASE, unwrapped, without_adapters

_SUPPORTS: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def supports_shared_prefix(module: Any) -> bool:
    """Whether the rows of a causal language model can attend to their prompts together.

    What its configuration leaves open, a probe decides, once for each model.
    """
    base = unwrapped(module)
    if base not in _SUPPORTS:
        config = base.config.get_text_config()
        _SUPPORTS[base] = attends_to_all(config) and _agrees(base)
    return _SUPPORTS[base]


def _agrees(base: Any) -> bool:
    """Whether shared-prefix attention equals separate rows."""
    try:
        apart = _probe(base, KVCache)
        states = iter([layer.came for layer in apart])
        together = _probe(base, SharedPrefixCache, given=lambda _: next(states))
    except REFUSALS:
        return False
    return equivalent(together, apart)


@torch.no_grad()
def _probe(
    base: Any,
    kind: type[KVCache],
    *,
    given: Callable[[Tensor], Tensor] = lambda states: states,
) -> list[Pass]:
    """Of three rows of two prompts, with tokens of their own; layers read what is `given`."""
    vocabulary = base.config.get_text_config().vocab_size
    ids = torch.tensor([[7, 5, 3], [2, 4, 6]], device=base.device) % vocabulary
    cache = kind(base, [BASE, BASE])
    with without_adapters(base):
        cache.read(ids, torch.tensor([[0, 1, 1], [1, 1, 1]], device=base.device))
        cache.select([1, 0, 1])
        with watched(base, given) as passes:
            for tokens in ([1, 2, 3], [4, 5, 6]):
                cache.extend(torch.tensor(tokens, device=base.device) % vocabulary)
    return passes
