"""A language model's dimensions, by which memory is counted; torch is not imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class Device(Protocol):
    """What is asked of a device, such as torch's."""

    @property
    def type(self) -> str:
        """`cpu` or `cuda`."""


class Number(Protocol):
    """What is asked of a type of numbers, such as torch's."""

    @property
    def itemsize(self) -> int:
        """Bytes."""


@dataclass(frozen=True)
class Dimensions:
    """What of a language model decides how much its activations take."""

    layers: int
    hidden: int
    intermediate: int
    key_values: int
    """Numbers that the cache holds for one token in one layer."""
    vocabulary: int
    bytes: int
    """Of one number."""


def dimensions_of(config: Any, dtype: Number) -> Dimensions:
    """Read a transformers model's dimensions from `config`, the part that describes its text."""
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Dimensions(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        key_values=2 * size * (getattr(config, "num_key_value_heads", None) or heads),
        vocabulary=config.vocab_size,
        bytes=dtype.itemsize,
    )


def attends_to_all(config: Any) -> bool:
    """Whether every layer is full attention that leaves scores as they are."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    plain = config._attn_implementation == "sdpa"
    return plain and kinds == {"full_attention"} and window is None
