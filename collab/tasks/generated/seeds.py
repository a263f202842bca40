"""Seeds, and nothing else: the problems of an environment that draws all the rest from them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any


def seeds(random: Random) -> Iterator[dict[str, Any]]:
    """One seed a row, without end."""
    for number in count():
        yield {"task_id": str(number), "seed": random.getrandbits(32)}
