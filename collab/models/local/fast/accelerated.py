"""The one face of this wing: the rows of a batch, made ready to be read fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor

from collab.models.local.fast.fused_projections import fused_projections
from collab.models.local.fast.memory import trim
from collab.models.local.fast.prepacked_weights import prepacked
from collab.models.local.fast.roomy_cache import RoomyCache
from collab.models.local.fast.shared_prefix import SharedPrefixCache
from collab.models.local.fast.supports_shared_prefix import supports_shared_prefix
from collab.models.local.kv_cache import KVCache
from collab.models.local.multi_lora import unwrapped


@contextmanager
def accelerated(module: Any, adapters: Sequence[str]) -> Iterator[KVCache]:
    """As `plain`: the rows of one batch, each to be read under its adapter."""
    kind = SharedPrefixCache if supports_shared_prefix(module) else RoomyCache
    cache = kind(module, adapters)
    row_adapters = cache.row_adapters
    head = unwrapped(module).get_output_embeddings().register_forward_pre_hook(_make_contiguous)
    try:
        with (
            row_adapters.applied(module) if row_adapters else nullcontext(),
            prepacked(fused_projections(module), row_adapters),
        ):
            yield cache
    finally:
        head.remove()
        if unwrapped(module).device.type == "cpu":
            trim()


def _make_contiguous(head: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:  # noqa: ARG001
    """Frozen weights times a strided input is a product for each row in torch, 200 times slower."""
    return (inputs[0].contiguous(),)
