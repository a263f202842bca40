"""Transition words of English, in the twelve categories of the writing rewards."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

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
        "to sum up", "to summarize", "to summarise", "all in all", "on the whole", "ultimately",
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
"""By category. A word with several meanings stands in several categories."""


def categories(text: str, matching: Matching = "words") -> set[str]:
    """The categories of which something stands in the text, in any case.

    With `substrings`, as in the published code, `so` is also found within `some`.
    """
    normal = " ".join(text.lower().split())
    if matching == "substrings":
        return {name for name, phrases in TRANSITIONS.items() if any(p in normal for p in phrases)}
    return {name for name in TRANSITIONS if _pattern(name).search(normal)}


@lru_cache
def _pattern(category: str) -> re.Pattern[str]:
    phrases = "|".join(map(re.escape, TRANSITIONS[category]))
    return re.compile(rf"(?<!\w)(?:{phrases})(?!\w)")
