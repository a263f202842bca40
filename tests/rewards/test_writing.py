"""The writing rewards: every knee of every ramp, totals, teams, and arbitrary text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scoring import Score_, Values, joined_score
from support.writing import ONE_OF_EACH, SOURCE, problem_for, shipped_reward, text

from collab.errors import RewardError
from collab.recipe.team import Roles
from collab.records import Problem
from collab.rewards.writing.pairs import categories
from collab.rewards.writing.sentences import clipped_precision, content_words, jaccard

# Length: both texts are within the bounds, inclusive.


@pytest.mark.parametrize(
    ("name", "first", "second", "expected"),
    [
        ("tldr", 8, 8, 1.0),
        ("tldr", 7, 8, 0.0),
        ("tldr", 256, 256, 1.0),
        ("tldr", 257, 256, 0.0),
        ("arxiv", 127, 128, 0.0),
        ("arxiv", 128, 127, 0.0),
        ("arxiv", 128, 257, 0.0),
    ],
)
def test_length(values: Values, name: str, first: int, second: int, expected: float) -> None:
    found = values(name, text(first, 2000), text(second, 2000))
    assert found["length"] == expected
    if not expected:
        assert found["reward"] == 0.0
        assert found["ratio"] == 0.0


# Ratio: characters of the second text per character of the first, with 100 or 1,000.


@pytest.mark.parametrize(
    ("name", "characters", "expected", "goes_on"),
    [
        ("tldr", 109, 0.0, False),
        ("tldr", 110, 0.0, True),
        ("tldr", 160, 1.0, True),
        ("tldr", 338, 0.9, True),
        ("tldr", 500, 0.0, True),
        ("tldr", 501, 0.0, False),
        ("arxiv", 799, 0.0, False),
        ("arxiv", 800, 0.0, True),
        ("arxiv", 1300, 1.0, True),
        ("arxiv", 1700, 0.75, True),
        ("arxiv", 2000, 0.0, True),
        ("arxiv", 2001, 0.0, False),
    ],
)
def test_ratio(values: Values, name: str, characters: int, expected: float, goes_on: bool) -> None:
    sizes = {"tldr": (10, 100, 22), "arxiv": (130, 1000, 130)}
    first, length, second = sizes[name]
    found = values(name, text(first, length), text(second, characters, stem="v"))
    assert found["ratio"] == pytest.approx(expected)
    assert found["vocabulary"] == (1.0 if goes_on else 0.0)
    assert found["reward"] == pytest.approx(0.5 + expected + (0.5 if goes_on else 0.0))


# Vocabulary: different words of the second text relative to the first; stopwords count.


@pytest.mark.parametrize(
    ("name", "unique", "expected", "goes_on"),
    [
        ("tldr", 129, 0.0, False),
        ("tldr", 130, 0.0, True),
        ("tldr", 199, 69 / 70, True),
        ("tldr", 200, 1.0, True),
        ("tldr", 250, 1.0, True),
        ("arxiv", 49, 0.0, False),
        ("arxiv", 50, 0.0, True),
        ("arxiv", 70, 1.0, True),
        ("arxiv", 150, 0.5, True),
        ("arxiv", 170, 0.0, True),
        ("arxiv", 171, 0.0, False),
    ],
)
def test_vocabulary(values: Values, name: str, unique: int, expected: float, goes_on: bool) -> None:
    texts = {
        "tldr": (text(100, 600), text(255, 1400, unique)),
        "arxiv": (text(190, 1000, 100), text(190, 1400, unique)),
    }
    found = values(name, *texts[name])
    assert (found["length"], found["ratio"]) == (1.0, 1.0)
    assert found["vocabulary"] == pytest.approx(expected)
    assert found["shared_words"] == (1.0 if goes_on else 0.0)
    assert found["reward"] == pytest.approx(1.5 + 0.5 * expected + (0.6 if goes_on else 0.0))


# Shared words: the Jaccard similarity of the sets of content words.


def overlapping(shared: int, union: int, first: int) -> tuple[str, str]:
    """Two texts with `union` different words in total and `shared` words in both."""
    names = [f"w{i:03}" for i in range(union)]
    one, other = names[:first], names[first - shared :]
    return " ".join(one), " ".join(other)


@pytest.mark.parametrize(("shared", "expected"), [(0, 0.0), (1, 1 / 3), (3, 1.0), (4, 1.0)])
def test_shared_words_of_tldr(values: Values, shared: int, expected: float) -> None:
    found = values("tldr", *overlapping(shared, union=100, first=32))
    assert found["vocabulary"] == 1.0
    assert found["shared_words"] == pytest.approx(expected)
    assert found["reward"] == pytest.approx(2.0 + 0.6 * expected)


@pytest.mark.parametrize(
    ("shared", "expected"), [(0, 0.0), (23, 0.5), (45, 45 / 46), (46, 1.0), (60, 1.0)]
)
def test_shared_words_of_arxiv(values: Values, shared: int, expected: float) -> None:
    one, other = overlapping(shared, union=200, first=100)
    fill = " ".join(["w000"] * 28)
    found = values("arxiv", f"{one} {fill}", f"{other} {' '.join(['w199'] * 50)}")
    assert found["vocabulary"] > 0
    assert found["shared_words"] == pytest.approx(expected)


def test_stopwords_are_not_shared_words() -> None:
    assert jaccard("the cat and the dog", "the bird or a fish") == 0.0
    assert jaccard("The cat", "a CAT and a dog") == 0.5
    assert jaccard("the of and", "the of and") == 0.0
    assert jaccard("", "") == 0.0


# Transitions: k of twelve categories.


COHERENCE = (0.0, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@pytest.mark.parametrize("k", range(13))
def test_transitions_by_number_of_categories(values: Values, k: int) -> None:
    first = "zebra apple quux " * 3
    second = "zebra quux waldo fred garply plugh. " * 2 + ", ".join(ONE_OF_EACH[:k])
    found = values("tldr", first, second)
    assert found["shared_words"] == 1.0
    assert found["transitions"] == pytest.approx(COHERENCE[k])


def test_arxiv_looks_for_transitions_in_both_texts(values: Values) -> None:
    first = "therefore moreover " + text(130, 900)
    second = text(130, 1300) + " overall"
    assert values("arxiv", first, second)["transitions"] == pytest.approx(0.5)


def test_whole_words_by_default_and_substrings_as_published() -> None:
    assert categories("some of the asphalt") == set()
    assert categories("some of the asphalt", "substrings") == {"cause and effect", "time"}
    assert categories("So, it was wet.") == {"cause and effect"}
    assert categories("for\n  example, this") == {"example"}
    assert categories("IN OTHER WORDS") == {"explanation"}
    assert categories("To summarise: wet.") == categories("To summarize: wet.") == {"summary"}


@pytest.mark.parametrize(("matching", "expected"), [("words", 0.0), ("substrings", 0.4)])
def test_the_published_form_is_an_option(score: Score_, matching: str, expected: float) -> None:
    part = {"use": "transitions", "options": {"matching": matching}}
    result = score({"parts": {"t": part}}, {"a": "x", "b": "some"}, join="text")
    assert result.reward == pytest.approx(expected)


# Totals and reports.


# Teams.


def test_a_single_agent_separates_its_texts_by_a_blank_line(score: Score_, values: Values) -> None:
    first, second = text(10, 100), text(22, 200, stem="v")
    two = values("tldr", first, second)
    one = score(
        shipped_reward("tldr"),
        {"writer": f"{first}\n \n{second}"},
        problem=problem_for("tldr"),
        join="text",
    )
    assert one.maximum == pytest.approx(3.0)
    assert one.reward == pytest.approx(two["reward"]) == pytest.approx(2.0)


def test_agent_that_does_not_write_is_skipped(score: Score_) -> None:
    texts = {"planner": "Make it short.", "a": "One text here.", "b": "Another text, longer."}
    two = {name: texts[name] for name in ("a", "b")}
    roles = Roles(("a", "b"), "b", ("a",))
    kinds = {"problem": problem_for("tldr"), "join": "text"}
    found = score(shipped_reward("tldr"), texts, roles=roles, **kinds)
    assert found.parts == score(shipped_reward("tldr"), two, **kinds).parts


def test_three_agents_are_an_error(score: Score_) -> None:
    with pytest.raises(RewardError, match=r"3 agents of the team \(a, b, c\) contribute"):
        score(
            shipped_reward("tldr"),
            {"a": "", "b": "", "c": ""},
            problem=problem_for("tldr"),
            join="text",
        )


@pytest.mark.parametrize(
    "options",
    [
        {"least": 2.0, "best_from": 1.0},
        {"least": 1.0, "best_from": 2.0, "best_to": 3.0},
        {"least": 1.0, "best_from": 2.0, "most": 3.0},
        {"least": 1.0, "best_from": 2.0, "best_to": 4.0, "most": 3.0},
    ],
)
def test_unordered_ramp_is_an_error(score: Score_, options: dict[str, Any]) -> None:
    part = {"use": "length_ratio", "options": options}
    with pytest.raises(RewardError, match="in this order; got"):
        score({"parts": {"r": part}}, {"a": "one", "b": "other"}, join="text")


# Faithfulness.


def test_faithfulness_is_the_share_of_content_words_from_the_source() -> None:
    assert clipped_precision("The keeper paints bridges", SOURCE) == 1.0
    assert clipped_precision("A keeper sells trains", SOURCE) == pytest.approx(1 / 3)
    assert clipped_precision("quantum unicorns", SOURCE) == 0.0
    assert clipped_precision("the of and", SOURCE) == 0.0
    assert clipped_precision("", SOURCE) == clipped_precision("word", "") == 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("study", "studies"), ("studied", "studying"), ("move", "moving"), ("run", "running"),
        ("class", "classes"), ("quick", "quickly"), ("stop", "stopped"), ("city", "cities"),
    ],
)  # fmt: skip
def test_endings_do_not_matter(one: str, other: str) -> None:
    assert clipped_precision(one, other) == clipped_precision(other, one) == 1.0


def test_different_words_stay_different() -> None:
    assert clipped_precision("contract", "contrast") == 0.0
    assert clipped_precision("summer", "summary") == 0.0


def test_faithfulness_is_reported_behind_closed_gates(values: Values) -> None:
    found = values("tldr", "keeper bridge", "")
    assert found["reward"] == 0.0
    assert found["faithfulness"] == pytest.approx(0.5)


def test_faithfulness_needs_its_source(score: Score_) -> None:
    bare = Problem(address="x/0", public={"text": "?"})
    with pytest.raises(RewardError, match="no field 'prompt'"):
        score(shipped_reward("tldr"), {"a": "", "b": ""}, problem=bare, join="text")


# Arbitrary model output.


@pytest.mark.parametrize("name", ["tldr", "arxiv"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", ""),
        ("", "word " * 200),
        ("word " * 200, ""),
        ("." * 2000, "! " * 200),
        ("犬が吠える。" * 40, "Ünïcödé ß " * 90),
        ("\u0000 " * 130, "\u202e\u200b " * 130),
        ("a " * 50_000, "b " * 70_000),
        ("x" * 250_000, "y" * 250_000),
    ],
)
def test_odd_texts_are_scored(values: Values, name: str, first: str, second: str) -> None:
    found = values(name, first, second)
    assert 0.0 <= found["reward"] <= 3.0


TEXTS = st.one_of(
    st.text(max_size=400),
    st.lists(st.sampled_from([*ONE_OF_EACH, "so", "bridge", "é", "\n\n", "…"]), max_size=80).map(
        " ".join
    ),
)


@given(first=TEXTS, second=TEXTS, name=st.sampled_from(["tldr", "arxiv"]))
def test_any_text_gets_a_value_from_0_to_1(first: str, second: str, name: str) -> None:
    import asyncio

    from collab.rewards import Scorer

    scorer = Scorer(shipped_reward(name), None)
    for artifacts in ({"a": first, "b": second}, {"a": f"{first}\n\n{second}"}):
        result = asyncio.run(
            joined_score(scorer, problem_for(name), artifacts, list(artifacts), "text")
        )
        assert all(0.0 <= part.value <= 1.0 for part in result.parts)
        assert 0.0 <= result.reward <= 3.0


@given(one=st.text(max_size=200), other=st.text(max_size=200))
def test_word_measures_are_bounded_and_consistent(one: str, other: str) -> None:
    assert 0.0 <= jaccard(one, other) == jaccard(other, one) <= 1.0
    assert 0.0 <= clipped_precision(one, other) <= 1.0
    assert clipped_precision(one, one) == jaccard(one, one) == float(bool(content_words(one)))
    assert categories(one) <= categories(one, "substrings")
