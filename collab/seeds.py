"""Seeds of their own for every place of a run, made from the run's seed."""

from __future__ import annotations

from hashlib import blake2b


def seed_of(seed: int, *place: object) -> int:
    """A seed below 2**56, the same for the same `seed` and place; no state is carried along."""
    key = "|".join(str(part) for part in (seed, *place))
    return int.from_bytes(blake2b(key.encode(), digest_size=7).digest(), "big")
