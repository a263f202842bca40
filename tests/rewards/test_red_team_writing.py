"""Text that only inflates a measure earns nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from support.scoring import Score_, Values

from collab.records import Problem
from collab.rewards.writing.visible import tokens, visible_text, words

CONCISE = "The old keeper painted his bridge and moved every lamp."
STORY = Problem(address="duet/0", public={"story": "fox, beach, bell"})
ZWSP = "\u200b"


def duet(score: Score_, opening: str, closing: str) -> float:
    texts = {"opening": opening, "closing": closing}
    spec: dict[str, Any] = {
        "parts": {
            "length": {
                "use": "length",
                "options": {"agent": "opening", "minimum": 8, "maximum": 18},
            },
            "sentences": {"use": "sentences"},
        }
    }
    return score(spec, texts, STORY, "text").reward


# Known holes.


def test_zero_width_spaces_are_not_words(values: Values) -> None:
    assert values("tldr", f"{ZWSP} " * 10, f"{ZWSP} " * 20)["reward"] == 0.0


@pytest.mark.parametrize("appended", ["", " in the sun", " and slept there for a long time"])
def test_phrase_with_a_short_addition_is_a_copy(score: Score_, appended: str) -> None:
    phrase = "At night the fox with the bell was on the beach"
    assert duet(score, f"{phrase}.", f"{phrase}{appended}.") == 1.5
    assert duet(score, f"{phrase}{appended}.", f"{phrase}.") == 1.5


def test_two_sentences_of_one_story_are_not_copies(score: Score_) -> None:
    first = "One night a fox came down to the beach with a bell."
    last = "And so the fox slept beside its bell on the warm beach until the night was over."
    assert duet(score, first, last) == 2.0


# Similar texts, written when the holes were closed and unchanged since.

PADS = {
    "zero-width joiners": "\u200d \u200d\u200d ",
    "soft hyphens": "\u00ad \u00ad ",
    "directions": "\u202e \u2066 ",
    "blank letters": "\u3164 \u115f \u1160 \uffa0 ",
    "blank braille": "\u2800 ",
    "tags": "\U000e0041 \U000e0042 ",
    "controls": "\x00 \x07 \x1b ",
    "private use": "\ue000 \uf8ff ",
    "selectors": "\ufe0f \U000e0100 ",
    "marks alone": "\u0301 \u0327\u0301 ",
    "punctuation": "... -- !? ",
    "symbols": "★ → § ",
    "underscores": "_ __ ___ ",
    "one word": "lamp ",
    "one word in cases": "Lamp LAMP lamp lAmp ",
}


@pytest.mark.parametrize("pad", PADS.values(), ids=PADS)
def test_padding_alone_has_no_length(values: Values, pad: str) -> None:
    found = values("tldr", pad * 10, pad * 20)
    assert (found["length"], found["reward"]) == (0.0, 0.0)


@pytest.mark.parametrize("name", sorted({*PADS} - {"one word", "one word in cases"}))
def test_padding_does_not_make_a_text_longer(values: Values, name: str) -> None:
    bare = values("tldr", CONCISE, CONCISE)
    padded = values("tldr", CONCISE, f"{CONCISE} {PADS[name] * 12}")
    assert padded["ratio"] == bare["ratio"] == 0.0
    assert padded["reward"] == bare["reward"]


DISGUISES: dict[str, Callable[[str], str]] = {
    "a zero-width space within": lambda word: f"{word[:1]}{ZWSP}{word[1:]}",
    "a stacked mark": lambda word: f"{word[:1]}\u0336\u0301{word[1:]}",
    "an accent": lambda word: word.replace("e", "é").replace("a", "ä").replace("o", "ô"),
    "Cyrillic twins": lambda word: word.translate(str.maketrans("aeopcyx", "аеорсух")),
    "Greek twins": lambda word: word.translate(str.maketrans("oiv", "οιν")),
    "full width": lambda word: "".join(chr(ord(char) + 0xFEE0) for char in word),
    "mathematical": lambda word: "".join(chr(ord(char) - 97 + 0x1D41A) for char in word),
    "a control within": lambda word: f"{word[:1]}\x08{word[1:]}",
    "upper case": str.upper,
}
PLAIN = ["the", "keeper", "painted", "over", "a", "pool", "and", "moved", "every", "copper", "lamp"]


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
def test_word_in_disguise_is_the_same_word(values: Values, disguise: Callable[[str], str]) -> None:
    disguised = [disguise(word) for word in PLAIN]
    assert words(" ".join(disguised)) == PLAIN
    once, twice = " ".join(PLAIN), " ".join([*PLAIN, *disguised])
    assert values("tldr", once, twice)["vocabulary"] == 0.0, "no word is new"


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
def test_a_copy_in_disguise_is_a_copy(score: Score_, disguise: Callable[[str], str]) -> None:
    phrase = "the fox with the bell was on the beach at night"
    copy = " ".join(disguise(word) for word in phrase.split())
    assert duet(score, f"T{phrase[1:]}.", f"T{copy[1:]}.") < 2.0


def test_a_copy_in_another_order_is_a_copy(score: Score_) -> None:
    first = "At night the fox with the bell was on the beach."
    last = "On the beach with the bell was the fox at night and there for long."
    assert duet(score, first, last) == 1.5


def test_words_mixing_alphabets_are_not_counted() -> None:
    assert words("lamp laᏢmp lamp") == ["lamp", "lamp"]
    assert words("犬が吠える книга café") == ["犬か吠える", "книга", "cafe"]


def test_padding_does_not_lengthen_sentences(score: Score_) -> None:
    spec = {"use": "length", "options": {"minimum": 8, "maximum": 18}}
    for pad in (f"{ZWSP} ", "- ", "\u3164 "):
        text = f"The fox rang. {pad * 9}"
        assert score({"parts": {"l": spec}}, {"a": text}, STORY, "text").reward == 0.0


def test_ordinary_text_is_unchanged() -> None:
    text = "Don't paint the café's 3 well-known lamps, Zoë!"
    assert visible_text(text) == text
    assert tokens(text) == text.split()
    assert visible_text("a\tb\nc\u00a0d") == "a\tb\nc\u00a0d"
