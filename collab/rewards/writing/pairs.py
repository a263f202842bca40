"""Reward parts for two texts that belong together, e.g. a short and a long summary.

The texts come from the team's two agents, in order. A single agent writes both, with a blank line
between them. The published rewards (MAGRPO, arXiv 2508.04652) combine these parts in
`tasks/rewards/tldr.yaml` and `arxiv.yaml`. docs/rewards.md has their tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from collab.errors import RewardError
from collab.rewards.context import Part, RewardContext
from collab.rewards.writing.sentences import clipped_precision, jaccard
from collab.rewards.writing.visible import tokens, words

Matching = Literal["words", "substrings"]

TRANSITIONS: dict[str, tuple[str, ...]] = {
    "elaboration": (
        "also", "furthermore", "moreover", "additionally", "in addition", "besides", "as well as",
        "not only", "on top of that", "what is more", "along with", "together with", "further",
    ),
    "example": (
        "for example", "for instance", "such as", "including", "in particular", "particularly",
        "specifically", "especially", "namely", "notably", "to illustrate", "e.g.",
    ),
    "explanation": (
        "in other words", "that is", "i.e.", "in fact", "actually", "namely", "put simply",
        "simply put", "to clarify", "this means", "which means", "essentially", "basically",
    ),
    "cause and effect": (
        "because", "so", "therefore", "thus", "hence", "consequently", "as a result", "accordingly",
        "thereby", "due to", "owing to", "thanks to", "for this reason", "leads to", "led to",
    ),
    "contrast": (
        "but", "however", "yet", "instead", "rather", "whereas", "unlike", "conversely",
        "in contrast", "by contrast", "on the other hand", "on the contrary", "otherwise",
    ),
    "sequence": (
        "first", "second", "third", "firstly", "secondly", "thirdly", "next", "then", "finally",
        "lastly", "afterwards", "subsequently", "to begin with", "initially", "in turn",
    ),
    "emphasis": (
        "indeed", "certainly", "definitely", "clearly", "obviously", "of course", "above all",
        "undoubtedly", "surely", "in fact", "importantly", "most importantly", "significantly",
    ),
    "summary": (
        "overall", "in summary", "in short", "in brief", "in conclusion", "to conclude",
        "to sum up", "to summarise", "to summarize", "all in all", "on the whole", "ultimately",
        "in the end",
    ),
    "comparison": (
        "similarly", "likewise", "equally", "in the same way", "compared with", "compared to",
        "in comparison", "just as", "just like", "much like", "by the same token", "analogously",
    ),
    "concession": (
        "although", "though", "even though", "even if", "despite", "in spite of", "nevertheless",
        "nonetheless", "still", "regardless", "admittedly", "granted", "even so",
    ),
    "condition": (
        "if", "unless", "provided that", "as long as", "in case", "given that", "assuming that",
        "whether", "otherwise", "only if", "on condition that", "or else",
    ),
    "time": (
        "when", "while", "as", "after", "before", "until", "since", "during", "once", "meanwhile",
        "later", "earlier", "currently", "recently", "eventually", "at the same time", "previously",
    ),
}  # fmt: skip
"""Transition words and phrases by category. A word with several meanings is in several
categories."""


def categories(text: str, matching: Matching = "words") -> set[str]:
    """Return the categories with a word or phrase in the text, in any case.

    With `substrings`, as in the published code, `so` is also found within `some`.
    """
    text = " ".join(text.lower().split())
    if matching == "substrings":
        return {name for name, phrases in TRANSITIONS.items() if any(p in text for p in phrases)}
    return {name for name in TRANSITIONS if _pattern(name).search(text)}


@lru_cache
def _pattern(category: str) -> re.Pattern[str]:
    phrases = "|".join(map(re.escape, TRANSITIONS[category]))
    return re.compile(rf"(?<!\w)(?:{phrases})(?!\w)")


MAX_REPEATS = 4
"""Maximum mean number of occurrences per word in a text. English prose of 256 words has two."""
_BLANK_LINE = re.compile(r"\n\s*\n")


def lengths(context: RewardContext, minimum: int, maximum: int) -> Part:
    """Both texts have `minimum` to `maximum` words, split at whitespace.

    A word has a letter or a digit. A text that repeats its words more than `MAX_REPEATS` times on
    average does not count.
    """
    texts = {name: tokens(text) for name, text in _pair(context).items()}
    counts = {name: (len(text), len({*map(str.lower, text)})) for name, text in texts.items()}
    reason = ", ".join(
        f"{name} {size}" + (f" (only {unique} different)" if size > MAX_REPEATS * unique else "")
        for name, (size, unique) in counts.items()
    )
    fits = all(minimum <= n <= min(maximum, MAX_REPEATS * unique) for n, unique in counts.values())
    return Part(float(fits), f"words: {reason}; wanted {minimum}-{maximum} each")


def length_ratio(
    context: RewardContext,
    least: float,
    best_from: float,
    best_to: float | None = None,
    most: float | None = None,
) -> Part:
    """The second text's length relative to the first, in characters of words.

    Words are counted with one space between them, so punctuation and spaces add no length. The
    value is 1 from `best_from` to `best_to` and falls linearly to 0 at `least` and `most`. As a
    gate, the part stops the scoring below `least` and above `most`.
    """
    ramp = _Ramp(least, best_from, best_to, most)
    return ramp.part(context, "characters", lambda text: len(" ".join(words(text))))


def vocabulary(
    context: RewardContext,
    least: float,
    best_from: float,
    best_to: float | None = None,
    most: float | None = None,
) -> Part:
    """The second text's number of different words relative to the first. Options: see
    `length_ratio`."""
    ramp = _Ramp(least, best_from, best_to, most)
    return ramp.part(context, "different words", lambda text: len(set(words(text))))


def transitions(
    context: RewardContext,
    text: Literal["second", "both"] = "second",
    matching: Matching = "words",
) -> Part:
    """The number of categories of transition words, out of twelve: 0.4 for the first, 0.05 for each
    additional one.

    Args:
        text: the texts in which they are counted.
        matching: `words` finds whole words and phrases; `substrings` is the published form, which
            finds `so` in `some`.
    """
    first, second = _pair(context).values()
    used = categories(second, matching)
    if text == "both":
        used |= categories(first, matching)
    value = min(1.0, 0.4 + 0.05 * (len(used) - 1)) if used else 0.0
    names = ", ".join(name for name in TRANSITIONS if name in used)
    return Part(value, f"{len(used)} of {len(TRANSITIONS)} kinds of transition: {names or 'none'}")


def shared_words(context: RewardContext, enough: float) -> Part:
    """The Jaccard similarity of the texts' content words, with full value from `enough` on."""
    similarity = jaccard(*_pair(context).values())
    reason = f"{similarity:.3f} of the content words are in both; wanted {enough:g}"
    return Part(min(similarity, enough) / enough, reason)


def faithfulness(context: RewardContext, source: str = "prompt") -> Part:
    """The share of the agents' content words that come from the problem's field `source`.

    The share is a mean over the agents, and each word counts at most as often as the source has it.
    It detects invented content and other subjects, but not a wrong statement in the source's own
    words.
    """
    source_text = context.field(source)
    shares = {
        name: clipped_precision(text, source_text) for name, text in context.contributions.items()
    }
    reason = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return Part(sum(shares.values()) / len(shares), f"content words from '{source}': {reason}")


@dataclass(frozen=True)
class _Ramp:
    """A ramp: 1 between the best values, down to 0 at the outer ones. None leaves a side open."""

    least: float
    best_from: float
    best_to: float | None
    most: float | None

    def __post_init__(self) -> None:
        knees = [self.least, self.best_from, self.best_to, self.most]
        present = [knee for knee in knees if knee is not None]
        if present != sorted(present) or (self.best_to is None) != (self.most is None):
            raise RewardError(
                "a ramp rises from 'least' to 'best_from' and falls from 'best_to' to 'most' (both"
                f" or neither of these), in this order; got {', '.join(map(str, knees))}"
            )

    def part(self, context: RewardContext, unit: str, size_of: Callable[[str], int]) -> Part:
        sizes = {name: size_of(text) for name, text in _pair(context).items()}
        (one, first), (other, second) = sizes.items()
        if not first:
            return Part(0.0, f"{one} has no {unit}", passes=False)
        ratio = second / first
        counts = f"{unit}: {one} {first}, {other} {second}, ratio {ratio:.2f}"
        return Part(self.value(ratio), f"{counts}; wanted {self}", passes=self.covers(ratio))

    def covers(self, ratio: float) -> bool:
        return self.least <= ratio and (self.most is None or ratio <= self.most)

    def value(self, ratio: float) -> float:
        if not self.covers(ratio):
            return 0.0
        if ratio < self.best_from:
            return (ratio - self.least) / (self.best_from - self.least)
        if self.most is not None and self.best_to is not None and ratio > self.best_to:
            return (self.most - ratio) / (self.most - self.best_to)
        return 1.0

    def __str__(self) -> str:
        if self.most is None:
            return f"{self.best_from:g} or more, at least {self.least:g}"
        return f"{self.best_from:g}-{self.best_to:g}, within {self.least:g}-{self.most:g}"


def _pair(context: RewardContext) -> dict[str, str]:
    """Return the two texts by their names in messages."""
    texts = context.contributions
    if len(texts) == 1:
        first, *rest = _BLANK_LINE.split(next(iter(texts.values())).strip(), maxsplit=1)
        return {"the first paragraph": first, "the rest": "".join(rest)}
    if len(texts) != 2:
        raise RewardError(
            f"the writing rewards compare two texts, but {len(texts)} agents of the team"
            f" ({', '.join(context.agents)}) contribute to the answer; set 'contributes: false' for"
            " all but one or two"
        )
    return texts
