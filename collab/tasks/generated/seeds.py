"""Problems that are only seeds, from which an environment draws everything else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any


def seeds(random: Random) -> Iterator[dict[str, Any]]:
    """Yield an endless sequence of rows with one seed each."""
    for number in count():
        yield {"task_id": str(number), "seed": random.getrandbits(32)}
