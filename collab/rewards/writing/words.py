"""Words of a text that carry content, and what two texts have in common."""

from __future__ import annotations

import re
from collections import Counter

from collab.rewards.writing.visible import words

_ENDING = re.compile(r"(?<=\w{3})[yi]?(?:ing|ed|es|ly|s|e)?$")
_DOUBLED = re.compile(r"([^\W\d_])\1$")

_STOPWORDS = """
a about above after again against all almost also although always am among an and another any
are around as at away back be became because been before being below between both but by came
can cannot come could d did do does doing done down during each either else enough etc even
ever every few first for from further get gets getting give given go goes going got had has
have having he her here hers herself him himself his how however i if in into is it its itself
just kind last least less let like ll lot lots m made make makes many may maybe me might mine
more most much must my myself neither never next no none nor not now of off often oh ok on once
one only onto or other others our ours ourselves out over own perhaps put quite rather re
really s said same say says see seem seems seen several shall she should since so some somehow
someone something sometimes soon still such sure t take than that the their theirs them
themselves then there therefore these they thing things this those though through thus to
together too took toward two under until up upon us use used using usually ve very via was way
we well went were what whatever when where whether which while who whole whom whose why will
with within without would yes yet you your yours yourself
"""
STOPWORDS = frozenset(_STOPWORDS.split())
"""English words that say how things hang together rather than what they are."""


def content_words(text: str) -> list[str]:
    """The words that are not `STOPWORDS`."""
    return [word for word in words(text) if word not in STOPWORDS]


def jaccard(one: str, other: str) -> float:
    """Content words that two texts share, of those that either has; 0 where none has any."""
    ours, theirs = set(content_words(one)), set(content_words(other))
    return len(ours & theirs) / len(ours | theirs) if ours or theirs else 0.0


def clipped_precision(text: str, source: str) -> float:
    """The share of the text's content words that stand in the source; 0 where it has none.

    Each counts at most as often as the source has it (as in BLEU, Papineni et al. 2002), so
    repeating a word of the source gains nothing. Endings do not matter: `moved` matches `moving`.
    """
    ours = Counter(map(without_ending, content_words(text)))
    theirs = Counter(map(without_ending, content_words(source)))
    return (ours & theirs).total() / ours.total() if ours else 0.0


def without_ending(word: str) -> str:
    """What `moved` and `moving` have in common, as far as rules of spelling tell."""
    return _DOUBLED.sub(r"\1", _ENDING.sub("", word))
