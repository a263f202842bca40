"""Derives a separate seed for every place of a run from the run's seed."""

from __future__ import annotations

from hashlib import blake2b


def derive_seed(seed: int, *place: object) -> int:
    """Derive a seed below 2**56 from `seed` and a place. The function is pure."""
    key = "|".join(str(part) for part in (seed, *place))
    return int.from_bytes(blake2b(key.encode(), digest_size=7).digest(), "big")
