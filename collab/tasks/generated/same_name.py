"""Same name: two agents name the same thing, and neither sees the other's name.

Many names fit, so the agents need a convention: to name only the quantity, or the quantity and its
owner in a fixed order. At level 3, the two agents get different descriptions of the thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any, Literal

KINDS = ("ages", "colors", "costs", "dates", "heights", "lengths", "names", "prices", "sizes",
         "speeds", "titles", "weights")  # fmt: skip
QUALITIES = ("big", "black", "broken", "cheap", "clean", "fast", "green", "heavy", "new", "old",
             "red", "small")  # fmt: skip
THINGS = ("bikes", "boats", "books", "boxes", "cars", "chairs", "clocks", "houses", "lamps",
          "pictures", "tables", "trains")  # fmt: skip
PLACES = ("city", "garden", "harbor", "hotel", "market", "museum", "park", "school", "shop",
          "village")  # fmt: skip

DESCRIPTIONS = {
    1: ("the {kind} of the {things}",) * 2,
    2: ("the {kind} of the {quality} {things} in the {place}",) * 2,
    3: (
        "the {kind} of the {quality} {things} in the {place}",
        "for all {quality} {things} in the {place}, the {kind}",
    ),
}
"""Descriptions for the two agents, by level."""


def same_name(random: Random, *, level: Literal[1, 2, 3] = 1) -> Iterator[dict[str, Any]]:
    """Yield things to name, in random order.

    Level 1 describes a thing in few words, level 2 in more, and level 3 differently per agent.
    """
    choices = [KINDS, THINGS] if level == 1 else [KINDS, THINGS, QUALITIES, PLACES]
    names = ("kind", "things", "quality", "place")
    rows = [dict(zip(names, words, strict=False)) for words in product(*choices)]
    random.shuffle(rows)
    for number, row in enumerate(rows):
        thing, again = (text.format(**row) for text in DESCRIPTIONS[level])
        yield {
            "thing": thing,
            "again": again,
            "kind": row["kind"],
            "task_id": f"same-name/{number}",
        }
