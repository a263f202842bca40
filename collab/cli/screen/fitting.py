"""The widths of a table's columns: what has no room is left out whole, and no number is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True)
class Wish:
    """What a column asks for, in characters."""

    least: int
    """Below this a word or a number would be cut."""
    full: int
    rank: int = 0
    """Columns of higher rank are left out first; of equal ones the last."""


def fit(wishes: Sequence[Wish], width: int) -> list[int]:
    """The width of each column within `width` characters; 0 for one that is left out.

    The first column always stays.
    """
    kept = list(range(len(wishes)))
    while len(kept) > 1 and _total([wishes[n].least for n in kept]) > width:
        kept.remove(max(kept[1:], key=lambda n: (wishes[n].rank, n)))
    widths = {n: wishes[n].least for n in kept}
    _grow(widths, wishes, width)
    return [widths.get(n, 0) for n in range(len(wishes))]


def _grow(widths: dict[int, int], wishes: Sequence[Wish], width: int) -> None:
    """Give what is left to the columns that want more, always to the narrowest of them."""
    for _ in range(width - _total(list(widths.values()))):
        hungry = [n for n in widths if widths[n] < wishes[n].full]
        if not hungry:
            return
        widths[min(hungry, key=lambda n: widths[n])] += 1


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
