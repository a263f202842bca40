"""Duet: one agent writes the first sentence of a story, another one the last.

Both are told what the story is about. What else they have in common, such as when it plays, they
have to agree on without a word.
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
    """Stories in random order: who they are about, where they play, and what plays a part."""
    stories = list(product(HEROES, PLACES, THINGS))
    random.shuffle(stories)
    for number, words in enumerate(stories):
        yield {"story": ", ".join(words), "task_id": f"duet/{number}"}
