"""Reward parts for single sentences: their form, their subject and their common words.

No rule can decide whether a sentence makes sense. These parts exclude lists of words, repetitions
and copies, which would otherwise earn as much as a sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from keyword import iskeyword

from collab.rewards.context import Part, RewardContext
from collab.rewards.writing.visible import words

_NAME_WORD = re.compile(r"[A-Z]?[a-z]+")
_NAME_FORM = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)*")


def names(context: RewardContext, field: str, head: str) -> Part:
    """Each agent's artifact is an identifier for the thing that the problem's `field` describes.

    The identifier consists of words of that text, each used once, and must contain the word in the
    field `head`, with any ending. For `the prices of the old books`, `prices`, `book_prices` and
    `priceOfBooks` count; `x`, `books` and `data_prices` do not.
    """
    described = {stem_of(word) for word in words(context.field(field))}
    wanted = context.field(head)
    faults = {
        agent: _name_fault(text.strip(), described, wanted)
        for agent, text in context.contributions.items()
    }
    reasons = [f"{agent}: {fault}" for agent, fault in faults.items() if fault]
    value = 1.0 - len(reasons) / len(faults)
    return Part(value, "; ".join(reasons) or "all are names of it", passes=not reasons)


def _name_fault(name: str, described: set[str], head: str) -> str:
    """Describe why a text is not such an identifier, or return "" if it is one."""
    shown = f"{name!r:.40}"
    parts = _NAME_WORD.findall(name)
    if not _NAME_FORM.fullmatch(name) or "".join(parts) != name.replace("_", "") or iskeyword(name):
        return f"{shown} is not an identifier of words"
    pieces = {stem_of(piece.lower()): piece for piece in parts}
    if strange := [piece for stem, piece in pieces.items() if stem not in described]:
        return f"{shown} has '{strange[0]}', which is not in the description"
    if len(pieces) < len(parts):
        return f"{shown} has a word twice"
    if stem_of(head.lower()) not in pieces:
        return f"{shown} does not say '{head}'"
    return ""


_SENTENCE = re.compile(r"[\"']?[A-Z][^.!?\n]*[.!?][\"']?")
MIN_STOPWORD_SHARE, MAX_STOPWORD_SHARE = 0.2, 0.8
"""Bounds on a sentence's share of stopwords, which is about half in English prose."""
MAX_COPIED_SHARE = 0.7
"""Above this share, the second text counts as a copy. It is the share of content words that both
have, or the share of the shorter text's words that the other one has.
"""


def sentences(context: RewardContext) -> tuple[float, str]:
    """The share of the texts that are one sentence each and do not copy an earlier text.

    Such a text begins with a capital letter and has one full stop, question mark or exclamation
    mark, at its end. It has no content word more than twice and no two equal adjacent words.
    Between 20 and 80 % of its words are stopwords.
    """
    faults = _sentence_faults(context)
    reasons = [f"{agent}: {fault}" for agent, fault in faults.items() if fault]
    return 1.0 - len(reasons) / len(faults), "; ".join(reasons) or "each is one sentence"


def mentions(context: RewardContext, field: str) -> tuple[float, str]:
    """The share of the words in the problem's `field` that a text has, as the mean over all texts.

    A text that `sentences` does not accept mentions nothing.
    """
    wanted = _stems(context.field(field))
    shares = {
        name: len(wanted & stems) / len(wanted) for name, stems in _stems_by_agent(context).items()
    }
    reason = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return sum(shares.values()) / len(shares), f"words of '{field}': {reason}"


def in_common(context: RewardContext, beyond: str, enough: int = 1) -> tuple[float, str]:
    """The number of content words that all texts have but the problem's field `beyond` does not.

    A text that `sentences` does not accept has nothing in common with another.

    Args:
        beyond: a field with words that all agents know, so sharing them takes no agreement.
        enough: the number of words for the full value.
    """
    texts = _stems_by_agent(context).values()
    shared = sorted(set.intersection(*texts) - _stems(context.field(beyond)))
    reason = f"{len(shared)} words in common that are not in '{beyond}': {', '.join(shared)}"
    return min(len(shared) / enough, 1.0), reason.removesuffix(": ")


def _stems_by_agent(context: RewardContext) -> dict[str, set[str]]:
    """Map each agent to the stems of its sentence's content words, or to none if its text is not a
    sentence.
    """
    faults = _sentence_faults(context)
    texts = context.contributions.items()
    return {name: set() if faults[name] else _stems(text) for name, text in texts}


def _sentence_faults(context: RewardContext) -> dict[str, str]:
    """Map each agent to the fault of its sentence, or "" if there is none."""
    faults: dict[str, str] = {}
    for agent, text in context.contributions.items():
        copied = [one for one in faults if _is_copy(text, context.contributions[one])]
        faults[agent] = _sentence_fault(text.strip()) or (f"copies {copied[0]}" if copied else "")
    return faults


def _is_copy(text: str, other: str) -> bool:
    """Return True if the other text contains the shorter one, or both have the same content words.

    Content words alone would miss a copy with something appended: two sentences of one story share
    most of theirs.
    """
    ours, theirs = _stems(text), _stems(other)
    all_ours, all_theirs = Counter(words(text)), Counter(words(other))
    shorter = min(all_ours.total(), all_theirs.total())
    same = len(ours & theirs) > MAX_COPIED_SHARE * len(ours | theirs)
    return same or (all_ours & all_theirs).total() > MAX_COPIED_SHARE * shorter


def _stems(text: str) -> set[str]:
    return {stem_of(word) for word in content_words(text)}


def _sentence_fault(text: str) -> str:
    """Describe why a text is not one sentence, or return "" if it is."""
    if not _SENTENCE.fullmatch(text):
        return "not one sentence with a capital letter first and its mark last"
    listed = words(text)
    share = sum(word in STOPWORDS for word in listed) / len(listed) if listed else 0.0
    if not MIN_STOPWORD_SHARE <= share <= MAX_STOPWORD_SHARE:
        return f"{share:.0%} of the words are stopwords"
    if any(one == other for one, other in pairwise(listed)):
        return "a word follows itself"
    [(word, times)] = Counter(map(stem_of, content_words(text))).most_common(1)
    return f"'{word}' stands there {times} times" if times > 2 else ""


_ENDING = re.compile(r"(?<=\w{3})[yi]?(?:ing|ed|es|ly|s|e)?$")
_DOUBLE_LETTER = re.compile(r"([^\W\d_])\1$")

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
"""English function words: they connect a sentence but say nothing about its subject."""


def content_words(text: str) -> list[str]:
    """Return the words of a text, in order, that are not in `STOPWORDS`."""
    return [word for word in words(text) if word not in STOPWORDS]


def jaccard(one: str, other: str) -> float:
    """Return the share of content words that both texts have, among those of either, or 0 if there
    are none."""
    ours, theirs = set(content_words(one)), set(content_words(other))
    return len(ours & theirs) / len(ours | theirs) if ours or theirs else 0.0


def clipped_precision(text: str, source: str) -> float:
    """Return the share of the text's content words found in the source, or 0 if it has none.

    Each word counts at most as often as the source has it (as in BLEU, Papineni et al. 2002), so
    repeating a word gains nothing. Endings do not matter: `moved` matches `moving`.
    """
    ours = Counter(map(stem_of, content_words(text)))
    theirs = Counter(map(stem_of, content_words(source)))
    return (ours & theirs).total() / ours.total() if ours else 0.0


def stem_of(word: str) -> str:
    """Return the stem of a word by spelling rules: `moved` and `moving` have the same one."""
    return _DOUBLE_LETTER.sub(r"\1", _ENDING.sub("", word))
