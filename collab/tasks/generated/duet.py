"""Duet: one agent writes the first sentence of a story, another one the last.

Both know the story's subject. Everything else that their sentences share, such as the time, they
must agree on without communication.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

HEROES = ("baker", "bear", "captain", "cat", "doctor", "farmer", "fox", "girl", "goat", "king",
          "painter", "pilot", "robot", "sailor", "teacher", "wizard")  # fmt: skip
PLACES = ("beach", "bridge", "castle", "cave", "desert", "farm", "forest", "garden", "island",
          "kitchen", "library", "market", "mountain", "river", "school", "tower")  # fmt: skip
THINGS = ("bell", "boat", "book", "clock", "coin", "drum", "hat", "key", "lamp", "letter", "map",
          "mirror", "ring", "rope", "shoe", "violin")  # fmt: skip


def duet(random: Random) -> Iterator[dict[str, Any]]:
    """Yield stories in random order: their characters, their place, and an important object."""
    stories = list(product(HEROES, PLACES, THINGS))
    random.shuffle(stories)
    for number, words in enumerate(stories):
        yield {"story": ", ".join(words), "task_id": f"duet/{number}"}
