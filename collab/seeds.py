"""Derives a separate seed for every place of a run from the run's seed."""

from __future__ import annotations

from hashlib import blake2b


def seed_of(seed: int, *place: object) -> int:
    """Return a seed below 2**56, always the same for the same `seed` and place; there is no
    state."""
    key = "|".join(str(part) for part in (seed, *place))
    return int.from_bytes(blake2b(key.encode(), digest_size=7).digest(), "big")
