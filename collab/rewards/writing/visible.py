"""The part of a text that a reader sees, used by all measures of texts.

Padding that shows nothing, such as zero-width spaces, stacked marks or look-alike letters, must not
count as words, characters or different words.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]+")
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Me"}
_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Characters that Unicode classifies as letters or symbols, but that fonts show as blank."""
_LATIN_LOOKALIKES = str.maketrans(
    "АВЕЅІЈКМНОРСТХҮаеѕіјорсухԁһӏԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧινορυ",
    "ABESIJKMHOPCTXYaesijopcyxdhlqwABEZHIKMNOPTYXivopu",
)
"""Cyrillic and Greek letters that look like Latin ones."""
_WORD = re.compile(r"[^\W_]+")


def visible_text(text: str, form: Literal["NFC", "NFKD"] = "NFC") -> str:
    """Return the text without controls, zero-width characters, blank letters and stacked marks."""
    if text.isascii():
        return _CONTROLS.sub("", text)
    return "".join(filter(_is_visible, unicodedata.normalize(form, text)))


def tokens(text: str) -> list[str]:
    """Split a text at whitespace, and return the pieces that contain a letter or a digit.

    Invisible characters are removed first.
    """
    return [piece for piece in visible_text(text).split() if any(map(str.isalnum, piece))]


def words(text: str) -> list[str]:
    """Split a text into runs of letters and digits of one alphabet.

    Return the runs in lower case and without accents.
    """
    seen = map(_in_latin, _WORD.findall(visible_text(text, "NFKD")))
    return [word.lower() for word in seen if word]


def _is_visible(char: str) -> bool:
    return char.isspace() or (
        unicodedata.category(char) not in _INVISIBLE_CATEGORIES and char not in _BLANK_LETTERS
    )


def _in_latin(word: str) -> str:
    """Return the word in Latin letters if it looks Latin, or "" if it mixes Latin and other
    letters.
    """
    if word.isascii():
        return word
    latin = word.translate(_LATIN_LOOKALIKES)
    if all(map(_is_latin, filter(str.isalpha, latin))):
        return latin
    return "" if any(map(_is_latin, filter(str.isalpha, word))) else word


def _is_latin(char: str) -> bool:
    return char.isascii() or unicodedata.name(char, "").startswith("LATIN")
