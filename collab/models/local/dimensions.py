"""A language model's dimensions, as the basis for memory counts without importing torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Dimensions:
    """Dimensions of a language model that determine the memory of its activations."""

    layers: int
    hidden: int
    intermediate: int
    key_values: int
    """Numbers that the cache holds for one token in one layer."""
    vocabulary: int
    bytes: int
    """Bytes of one number."""


def dimensions_of(config: Any, itemsize: int) -> Dimensions:
    """Return a model's dimensions from `config`, the text part of its transformers configuration,
    and the bytes of one number."""
    return Dimensions(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=_intermediate_of(config),
        key_values=key_values_of(config),
        vocabulary=config.vocab_size,
        bytes=itemsize,
    )


_INTERMEDIATE_KEYS = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")


def _intermediate_of(config: Any) -> int:
    """Return the width of the feed-forward layers: four times the hidden size if the configuration
    has no name for it, as in older models."""
    sizes = (getattr(config, key, None) for key in _INTERMEDIATE_KEYS)
    return int(next((size for size in sizes if size), 4 * config.hidden_size))


def key_values_of(config: Any) -> int:
    """Return how many numbers the cache holds for one token in one layer."""
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return int(2 * size * (getattr(config, "num_key_value_heads", None) or heads))


def has_full_attention(config: Any) -> bool:
    """Return True if every layer uses full attention with unmodified scores."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    plain = config._attn_implementation == "sdpa"
    return plain and kinds == {"full_attention"} and window is None
