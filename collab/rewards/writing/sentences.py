"""Single sentences: their form, what they are about, and what they have in common.

No rule tells whether a sentence makes sense. These tell it from lists of words, from repetitions
and from copies, which would earn as much otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from collab.rewards.context import RewardContext
from collab.rewards.writing.visible import words
from collab.rewards.writing.words import STOPWORDS, content_words, without_ending

_SENTENCE = re.compile(r"[\"']?[A-Z][^.!?\n]*[.!?][\"']?")
FEWEST, MOST_STOPWORDS = 0.2, 0.8
"""Shares of words that say how a sentence hangs together; in English prose it is about half."""
COPY = 0.7
"""The share above which the second text copies the first: of their content words that both have, or
of all words of the shorter that stand in the other."""


def sentences(context: RewardContext) -> tuple[float, str]:
    """The share of the texts that are one sentence each, and copy none of those before them.

    Such a text has a capital letter first, one full stop, question or exclamation mark, at its end,
    and no content word more than twice; from a fifth to 80 % of its words are stopwords, and no two
    words that follow each other are the same.
    """
    faults = _faults(context)
    told = [f"{agent}: {fault}" for agent, fault in faults.items() if fault]
    return 1.0 - len(told) / len(faults), "; ".join(told) or "each is one sentence"


def mentions(context: RewardContext, field: str) -> tuple[float, str]:
    """The share of the problem's words in `field` that stand in a text, as the mean over all texts.

    A text that is no sentence, as `sentences` has it, mentions nothing.
    """
    asked = _stems(context.field(field))
    shares = {name: len(asked & stems) / len(asked) for name, stems in _told(context).items()}
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return sum(shares.values()) / len(shares), f"words of '{field}': {told}"


def in_common(context: RewardContext, beyond: str, enough: int = 1) -> tuple[float, str]:
    """Content words that all texts have, and that the problem's field `beyond` does not have.

    A text that is no sentence, as `sentences` has it, has nothing in common with another.

    Args:
        beyond: its words are known to all agents, and agreeing on them takes nothing.
        enough: so many words give the full value.
    """
    texts = _told(context).values()
    found = sorted(set.intersection(*texts) - _stems(context.field(beyond)))
    told = f"{len(found)} words in common beside those of '{beyond}': {', '.join(found)}"
    return min(len(found) / enough, 1.0), told.removesuffix(": ")


def _told(context: RewardContext) -> dict[str, set[str]]:
    """By agent, the content words of its sentence without their endings; of what is none, none."""
    faults = _faults(context)
    texts = context.contributions.items()
    return {name: set() if faults[name] else _stems(text) for name, text in texts}


def _faults(context: RewardContext) -> dict[str, str]:
    """By agent, what keeps its text from being one sentence of its own; "" where nothing does."""
    faults: dict[str, str] = {}
    for agent, text in context.contributions.items():
        copied = [one for one in faults if _copies(text, context.contributions[one])]
        faults[agent] = _fault(text.strip()) or (f"copies {copied[0]}" if copied else "")
    return faults


def _copies(text: str, other: str) -> bool:
    """The shorter text is in the other one, or both are about the same words and no others.

    Content words alone would not tell a copy with something appended: two sentences of one story
    share most of theirs.
    """
    ours, theirs = _stems(text), _stems(other)
    all_ours, all_theirs = Counter(words(text)), Counter(words(other))
    shorter = min(all_ours.total(), all_theirs.total())
    same = len(ours & theirs) > COPY * len(ours | theirs)
    return same or (all_ours & all_theirs).total() > COPY * shorter


def _stems(text: str) -> set[str]:
    return {without_ending(word) for word in content_words(text)}


def _fault(text: str) -> str:
    """What keeps a text from being one sentence; "" where nothing does."""
    if not _SENTENCE.fullmatch(text):
        return "not one sentence with a capital letter first and its mark last"
    found = words(text)
    share = sum(word in STOPWORDS for word in found) / len(found) if found else 0.0
    if not FEWEST <= share <= MOST_STOPWORDS:
        return f"{share:.0%} of the words are stopwords"
    if any(one == other for one, other in pairwise(found)):
        return "a word follows itself"
    [(word, times)] = Counter(map(without_ending, content_words(text))).most_common(1)
    return f"'{word}' stands there {times} times" if times > 2 else ""
