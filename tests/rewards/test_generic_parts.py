"""Reward parts for any team: lengths, phrases, names, sentences, games, and agreement."""

from typing import Any

import pytest
from support.scoring import Score_

from collab.errors import RewardError
from collab.records import Problem

PROBLEM = Problem(address="demo/0", public={"question": "?"}, hidden={"answer": "Forty  Two"})


def value(score: Score_, part: dict[str, Any], **artifacts: str) -> float:
    return score({"parts": {"it": part}}, artifacts, problem=PROBLEM, join="text").reward


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a b", 1.0), ("a b c d", 1.0), ("a", 0.75), ("", 0.5), ("a b c d e", 0.75), ("a " * 9, 0.0)],
)
def test_length_falls_linearly_beyond_bounds(score: Score_, text: str, expected: float) -> None:
    part = {"use": "length", "options": {"minimum": 2, "maximum": 4, "margin": 3}}
    assert value(score, part, writer=text) == expected


def test_length_of_one_agent_in_characters(score: Score_) -> None:
    part = {"use": "length", "options": {"agent": "b", "unit": "characters", "maximum": 3}}
    assert value(score, part, a="a long text", b="abc") == 1.0
    assert value(score, part, a="", b="abcd") == 0.0


def test_contains_whole_words_in_any_case(score: Score_) -> None:
    part = {"use": "contains", "options": {"phrases": ["so", "in short", "c++"]}}
    assert value(score, part, a="Also sober", b="nothing") == 0.0
    assert value(score, part, a="So, it is", b="IN SHORT: C++.") == 1.0


def test_equals_a_hidden_field(score: Score_) -> None:
    part = {"use": "equals", "options": {"field": "answer", "agent": "b"}}
    assert value(score, part, a="", b=" forty two\n") == 1.0
    assert value(score, part, a="forty two", b="43") == 0.0


TABLE = {"cooperate": {"cooperate": 3, "defect": 0}, "defect": {"cooperate": 5, "defect": 1}}
GAME = {"use": "utility", "options": {"table": TABLE, "maximum": 5.0}}


def test_utility_is_the_payoff_of_the_joint_move(score: Score_) -> None:
    assert value(score, GAME, row="Defect", column="cooperate ") == 1.0
    assert value(score, GAME, row="cooperate", column="cooperate") == pytest.approx(0.6)
    assert value(score, GAME, row="cooperate", column="defect") == 0.0


def test_a_move_outside_the_game_earns_nothing(score: Score_) -> None:
    result = score(
        {"parts": {"it": GAME}}, {"row": "defect", "column": "sulk"}, problem=PROBLEM, join="text"
    )
    assert result.reward == 0.0
    assert "column plays 'sulk', which is not one of: cooperate, defect" in result.parts[0].reason


@pytest.mark.parametrize(
    "artifacts", [{"row": "defect"}, {"row": "defect", "column": "defect", "third": "defect"}]
)
def test_payoff_table_must_fit_the_team(score: Score_, artifacts: dict[str, str]) -> None:
    with pytest.raises(RewardError, match="the table of 'utility'"):
        value(score, GAME, **artifacts)


def test_a_payoff_above_the_maximum_is_an_error(score: Score_) -> None:
    part = {"use": "utility", "options": {"table": {"a": 2}}}
    with pytest.raises(RewardError, match=r"returned 2\.0"):
        value(score, part, player="a")


FOX = Problem(
    address="demo/0",
    public={"thing": "the prices of the old books", "signals": "red, blue", "story": "fox, lamp"},
    hidden={"kind": "prices"},
)
NAMES = {"use": "names", "options": {"field": "thing", "head": "kind"}}


def part(score: Score_, spec: dict[str, Any], *texts: str) -> tuple[float, str]:
    artifacts = dict(zip("ab", texts, strict=False))
    [found] = score({"parts": {"it": spec}}, artifacts, FOX, "text").parts
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
        assert score(reward, dict(zip("ab", texts, strict=True)), FOX, "text").reward == expected


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
