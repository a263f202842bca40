"""Reward parts for names, single sentences, words of a list, and agreement."""

from collections.abc import Callable
from typing import Any

import pytest

from collab.records import Problem, Score

Score_ = Callable[..., Score]

PROBLEM = Problem(
    address="demo/0",
    public={"thing": "the prices of the old books", "signals": "red, blue", "story": "fox, lamp"},
    hidden={"kind": "prices"},
)
NAMES = {"use": "names", "options": {"field": "thing", "head": "kind"}}


def part(score: Score_, spec: dict[str, Any], *texts: str) -> tuple[float, str]:
    artifacts = dict(zip("ab", texts, strict=False))
    [found] = score({"parts": {"it": spec}}, artifacts, PROBLEM, "text").parts
    return found.value, found.reason


@pytest.mark.parametrize(
    "name", ["prices", "price", "book_prices", "prices_of_old_books", "priceOfBooks", " Prices\n"]
)
def test_name_may_combine_words_of_the_description(score: Score_, name: str) -> None:
    assert part(score, NAMES, name, "prices")[0] == 1.0


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "not an identifier"),
        ("old prices", "not an identifier"),
        ("prices1", "not an identifier"),
        ("_prices", "not an identifier"),
        ("prices__old", "not an identifier"),
        ("PRICES", "not an identifier"),
        ("prïces", "not an identifier"),
        ("data_prices", "'data', which is not in the description"),
        ("prices_price", "a word twice"),
        ("old_books", "does not say 'prices'"),
        ("a" * 5000 + "!", "not an identifier"),
    ],
)
def test_invalid_names_are_reported_with_the_reason(score: Score_, name: str, fault: str) -> None:
    value, reason = part(score, NAMES, "prices", name)
    assert value == 0.5
    assert reason.startswith("b: ")
    assert fault in reason


def test_name_gate_opens_only_when_every_name_is_valid(score: Score_) -> None:
    reward = {"parts": {"named": {**NAMES, "gate": True, "weight": 0}, "same": {"use": "agree"}}}
    for texts, expected in [(("price", "price"), 1.0), (("x", "x"), 0.0), (("price", "x"), 0.0)]:
        assert (
            score(reward, dict(zip("ab", texts, strict=True)), PROBLEM, "text").reward == expected
        )


@pytest.mark.parametrize(
    ("texts", "value"),
    [(("x", " x\n"), 1.0), (("x", "X"), 0.0), (("x", "y"), 0.0), (("", ""), 0.0), (("x", ""), 0.0)],
)
def test_agree_needs_identical_texts(score: Score_, texts: tuple[str, str], value: float) -> None:
    assert part(score, {"use": "agree"}, *texts)[0] == value


@pytest.mark.parametrize(
    ("answer", "value"),
    [("red", 1.0), (" blue\n", 1.0), ("Red", 0.0), ("red.", 0.0), ("red, blue", 0.0), ("", 0.0)],
)
def test_one_of_requires_an_exact_list_item(score: Score_, answer: str, value: float) -> None:
    spec = {"use": "one_of", "options": {"field": "signals", "agent": "a"}}
    assert part(score, spec, answer, "whatever")[0] == value


ONE, TWO = "The fox lit its lamp at night.", "And so the night was over for the fox."


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not one sentence"),
        ("the fox lit its lamp.", "not one sentence"),
        ("The fox lit its lamp", "not one sentence"),
        ("The fox. It lit its lamp.", "not one sentence"),
        ("The fox lit\nits lamp.", "not one sentence"),
        ("Fox lamp night river tree.", "0% of the words are stopwords"),
        ("It was there.", "100% of the words are stopwords"),
        ("The the fox lit a lamp.", "a word follows itself"),
        ("The fox and a fox and two foxes sat.", "'fox' stands there 3 times"),
        (ONE.replace(".", "!"), "copies a"),
        ("A" * 100_000, "not one sentence"),
    ],
)
def test_invalid_sentences_earn_nothing_and_say_why(score: Score_, text: str, fault: str) -> None:
    value, reason = part(score, {"use": "sentences"}, ONE, text)
    assert (value, reason.partition(": ")[0]) == (0.5, "b")
    assert fault in reason
    mentions = {"use": "mentions", "options": {"field": "story"}}
    assert part(score, mentions, ONE, text)[0] == 0.5
    assert part(score, {"use": "in_common", "options": {"beyond": "story"}}, ONE, text)[0] == 0.0


def test_valid_sentences_are_scored_by_shared_words(score: Score_) -> None:
    assert part(score, {"use": "sentences"}, ONE, TWO)[0] == 1.0
    assert part(score, {"use": "mentions", "options": {"field": "story"}}, ONE, TWO)[0] == 0.75
    common = {"use": "in_common", "options": {"beyond": "story"}}
    value, reason = part(score, common, ONE, TWO)
    assert value == 1.0
    assert reason.endswith(": night")
    assert part(score, {**common, "options": {"beyond": "story", "enough": 2}}, ONE, TWO)[0] == 0.5
    assert part(score, common, ONE, TWO.replace("night", "day"))[0] == 0.0
