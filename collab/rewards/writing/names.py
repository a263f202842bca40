"""Names: identifiers that say what they stand for, in the words of a description."""

from __future__ import annotations

import re
from keyword import iskeyword

from collab.rewards.context import Part, RewardContext
from collab.rewards.writing.visible import words
from collab.rewards.writing.words import without_ending

_PIECE = re.compile(r"[A-Z]?[a-z]+")
_NAME = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)*")


def names(context: RewardContext, field: str, head: str) -> Part:
    """Each agent's artefact is an identifier for what the problem's `field` describes.

    It is made of words of that text, none of them twice, and that of the field `head` is one of
    them, with whatever ending: `prices`, `book_prices` and `priceOfBooks` for `the prices of the
    old books`, and neither `x`, nor `books`, nor `data_prices`.
    """
    described = {without_ending(word) for word in words(context.field(field))}
    wanted = context.field(head)
    faults = {
        agent: _fault(text.strip(), described, wanted)
        for agent, text in context.contributions.items()
    }
    told = [f"{agent}: {fault}" for agent, fault in faults.items() if fault]
    value = 1.0 - len(told) / len(faults)
    return Part(value, "; ".join(told) or "all are names of it", passes=not told)


def _fault(name: str, described: set[str], head: str) -> str:
    """What keeps a text from being such an identifier; "" where nothing does."""
    shown = f"{name!r:.40}"
    found = _PIECE.findall(name)
    if not _NAME.fullmatch(name) or "".join(found) != name.replace("_", "") or iskeyword(name):
        return f"{shown} is no identifier of words"
    pieces = {without_ending(piece.lower()): piece for piece in found}
    if strange := [piece for stem, piece in pieces.items() if stem not in described]:
        return f"{shown} has '{strange[0]}', which is not in the description"
    if len(pieces) < len(found):
        return f"{shown} has a word twice"
    if without_ending(head.lower()) not in pieces:
        return f"{shown} does not say '{head}'"
    return ""
