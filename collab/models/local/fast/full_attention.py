"""Whether a model's attention can be shared, as its configuration tells; torch is not imported."""

from __future__ import annotations

from typing import Any


def attends_to_all(config: Any) -> bool:
    """Whether every layer is full attention that leaves scores as they are."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    plain = config._attn_implementation == "sdpa"
    return plain and kinds == {"full_attention"} and window is None
