"""Small pieces of plain English for messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

NAMED = 3
"""Names of which a name is made; of more, it says how many there are."""


def counted(number: int, noun: str) -> str:
    """A number and its noun, e.g. `1 step`, `1,024 steps`, `0 new tokens`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def by_names(names: Iterable[object]) -> str:
    """What things without a common name are called together, e.g. `aux+main`, `a+b+c+5`.

    It has only letters that a folder's name may have too.
    """
    plain = [re.sub(r"[^\w.-]+", "-", str(name)).strip("-.") or "-" for name in names]
    more = [str(len(plain) - NAMED)] if len(plain) > NAMED else []
    return "+".join([*plain[:NAMED], *more])
