"""How much memory vLLM's cache of keys and values takes on a machine without a GPU.

vLLM would take a share of what the machine calls its total, which containers and hypervisors change
from one minute to the next. What a model needs does not change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collab.errors import ModelUnavailable
from collab.recipe.model import VLLMModel

ROWS = 64
"""Responses of the whole context that the cache has room for; vLLM lets further ones wait."""
BLOCK = 128
"""Tokens that vLLM caches together on a CPU."""
GB = 10**9


def cache_bytes(spec: VLLMModel, folder: Path, width: int) -> int:
    """Bytes of the cache for the model in `folder`, with values of `width` bytes.

    As many as `kv_cache_gb` says, else room for `ROWS` responses, within `memory_share` of the
    memory that is free.

    Raises:
        ModelUnavailable: not one response of the context fits; with what it needs and what is free.
    """
    import psutil
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config()
    context = spec.context or int(config.max_position_embeddings)
    row = (-(-context // BLOCK) + 1) * BLOCK * token_bytes(config, width)
    free = int(psutil.virtual_memory().available)
    wanted = spec.kv_cache_gb
    most = int(wanted * GB) if wanted else int(free * spec.memory_share)
    if row <= most <= free:
        return most if wanted else min(ROWS * row, most)
    given = f"kv_cache_gb is {wanted:g}" if wanted else f"memory_share is {spec.memory_share:g}"
    raise ModelUnavailable(
        f"vLLM's cache for {spec.name!r} takes {row / GB:.3g} GB for one response of the context,"
        f" {context} tokens; {free / GB:.3g} GB are free, and {given}; lower the model's context"
        " or kv_cache_gb, or free memory"
    )


def token_bytes(config: Any, width: int) -> int:
    """Bytes of one token's keys and values in all layers, with values of `width` bytes."""
    heads = config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    pairs = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * config.num_hidden_layers * pairs * head * width)
