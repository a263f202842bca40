"""The writing rewards, by hand at every knee of every ramp, and by property."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collab.errors import RewardError
from collab.recipe import RewardSpec
from collab.recipe.documents import read_mapping
from collab.recipe.library import shipped
from collab.recipe.roles import Roles
from collab.records import Problem, Score
from collab.rewards.writing.transitions import TRANSITIONS, categories
from collab.rewards.writing.words import clipped_precision, content_words, jaccard

Score_ = Callable[..., Score]

FIELDS = {"tldr": "prompt", "arxiv": "abstract_text"}
SOURCE = "The old bridge keeper painted his bridge and moved the lamps."


@lru_cache
def shipped_reward(name: str) -> RewardSpec:
    return RewardSpec.model_validate(read_mapping(shipped() / "tasks" / "rewards" / f"{name}.yaml"))


def problem_for(name: str) -> Problem:
    return Problem(address=f"{name}/0", public={FIELDS[name]: SOURCE})


Values = Callable[..., dict[str, float]]


@pytest.fixture
def values(score: Score_) -> Values:
    """The value of every part of a shipped reward, and the total as `reward`."""

    def values(name: str, first: str, second: str) -> dict[str, float]:
        result = score(
            shipped_reward(name), {"a": first, "b": second}, problem=problem_for(name), join="text"
        )
        assert result.maximum == pytest.approx(3.0)
        assert result.solved is None
        assert all(part.reason for part in result.parts)
        return {**{part.name: part.value for part in result.parts}, "reward": result.reward}

    return values


def text(n_words: int, n_characters: int, n_unique: int | None = None, stem: str = "w") -> str:
    """`n_words` words in exactly `n_characters`, of them `n_unique` different."""
    n_unique = n_words if n_unique is None else n_unique
    chosen = [f"{stem}{i}" for i in range(n_unique)]
    chosen += [chosen[0]] * (n_words - n_unique)
    missing = n_characters - len(" ".join(chosen))
    assert missing == 0 or missing >= 2, "no room for the filling"
    return " ".join(chosen) + (" " + "." * (missing - 1) if missing else "")


def padded(n_words: int, n_characters: int, n_unique: int | None = None, stem: str = "w") -> str:
    """As `text`, where the filling of dots is one of the words."""
    return text(n_words - 1, n_characters, n_unique, stem)


# Length: both texts within the bounds, both bounds included.


@pytest.mark.parametrize(
    ("name", "first", "second", "expected"),
    [
        ("tldr", 8, 8, 1.0),
        ("tldr", 7, 8, 0.0),
        ("tldr", 8, 7, 0.0),
        ("tldr", 256, 256, 1.0),
        ("tldr", 257, 256, 0.0),
        ("tldr", 256, 257, 0.0),
        ("arxiv", 128, 128, 1.0),
        ("arxiv", 127, 128, 0.0),
        ("arxiv", 128, 127, 0.0),
        ("arxiv", 256, 256, 1.0),
        ("arxiv", 257, 256, 0.0),
        ("arxiv", 128, 257, 0.0),
    ],
)
def test_length(values: Values, name: str, first: int, second: int, expected: float) -> None:
    found = values(name, "word " * first, "word " * second)
    assert found["length"] == expected
    if not expected:
        assert found["reward"] == 0.0
        assert found["ratio"] == 0.0


# Ratio: characters of the second over those of the first, of 100 or 1,000.


@pytest.mark.parametrize(
    ("characters", "expected", "goes_on"),
    [
        (109, 0.0, False),
        (110, 0.0, True),
        (135, 0.5, True),
        (159, 0.98, True),
        (160, 1.0, True),
        (320, 1.0, True),
        (338, 0.9, True),
        (410, 0.5, True),
        (500, 0.0, True),
        (501, 0.0, False),
    ],
)
def test_ratio_of_tldr(values: Values, characters: int, expected: float, goes_on: bool) -> None:
    found = values("tldr", padded(10, 100), padded(22, characters, stem="v"))
    assert found["ratio"] == pytest.approx(expected)
    assert found["vocabulary"] == (1.0 if goes_on else 0.0)
    assert found["reward"] == pytest.approx(0.5 + expected + (0.5 if goes_on else 0.0))


@pytest.mark.parametrize(
    ("characters", "expected", "goes_on"),
    [
        (799, 0.0, False),
        (800, 0.0, True),
        (1050, 0.5, True),
        (1299, 0.998, True),
        (1300, 1.0, True),
        (1600, 1.0, True),
        (1700, 0.75, True),
        (2000, 0.0, True),
        (2001, 0.0, False),
    ],
)
def test_ratio_of_arxiv(values: Values, characters: int, expected: float, goes_on: bool) -> None:
    found = values("arxiv", padded(130, 1000), padded(130, characters, stem="v"))
    assert found["ratio"] == pytest.approx(expected)
    assert found["vocabulary"] == (1.0 if goes_on else 0.0)
    assert found["reward"] == pytest.approx(0.5 + expected + (0.5 if goes_on else 0.0))


# Vocabulary: different words of the second over those of the first; stopwords count.


@pytest.mark.parametrize(
    ("unique", "expected", "goes_on"),
    [
        (129, 0.0, False),
        (130, 0.0, True),
        (165, 0.5, True),
        (199, 69 / 70, True),
        (200, 1.0, True),
        (250, 1.0, True),
    ],
)
def test_vocabulary_of_tldr(values: Values, unique: int, expected: float, goes_on: bool) -> None:
    found = values("tldr", text(100, 600), text(255, 1400, unique))
    assert (found["length"], found["ratio"]) == (1.0, 1.0)
    assert found["vocabulary"] == pytest.approx(expected)
    assert found["shared_words"] == (1.0 if goes_on else 0.0)
    assert found["reward"] == pytest.approx(1.5 + 0.5 * expected + (0.6 if goes_on else 0.0))


@pytest.mark.parametrize(
    ("unique", "expected", "goes_on"),
    [
        (49, 0.0, False),
        (50, 0.0, True),
        (60, 0.5, True),
        (69, 0.95, True),
        (70, 1.0, True),
        (130, 1.0, True),
        (150, 0.5, True),
        (170, 0.0, True),
        (171, 0.0, False),
    ],
)
def test_vocabulary_of_arxiv(values: Values, unique: int, expected: float, goes_on: bool) -> None:
    found = values("arxiv", text(200, 1000, 100), text(200, 1400, unique))
    assert (found["length"], found["ratio"]) == (1.0, 1.0)
    assert found["vocabulary"] == pytest.approx(expected)
    assert found["shared_words"] == (1.0 if goes_on else 0.0)
    assert found["reward"] == pytest.approx(1.5 + 0.5 * expected + (0.6 if goes_on else 0.0))


def test_vocabulary_counts_stopwords_and_ignores_case(values: Values) -> None:
    first = "The the a A of Of in IN"  # four different words
    found = values("tldr", first, "the a of in on at by to " + "." * 20)  # eight
    assert found["vocabulary"] == 1.0


# Shared words: the Jaccard similarity of the sets of content words.


def overlapping(shared: int, union: int, first: int) -> tuple[str, str]:
    """Two texts with `union` different words between them, `shared` of these in both."""
    names = [f"w{i:03}" for i in range(union)]
    one, other = names[:first], names[first - shared :]
    return " ".join(one), " ".join(other)


@pytest.mark.parametrize(
    ("shared", "expected"),
    [(0, 0.0), (1, 1 / 3), (3, 1.0), (4, 1.0)],
)
def test_shared_words_of_tldr(values: Values, shared: int, expected: float) -> None:
    found = values("tldr", *overlapping(shared, union=100, first=32))
    assert found["vocabulary"] == 1.0
    assert found["shared_words"] == pytest.approx(expected)
    assert found["reward"] == pytest.approx(2.0 + 0.6 * expected)


@pytest.mark.parametrize(
    ("shared", "expected"),
    [(0, 0.0), (23, 0.5), (45, 45 / 46), (46, 1.0), (60, 1.0)],
)
def test_shared_words_of_arxiv(values: Values, shared: int, expected: float) -> None:
    one, other = overlapping(shared, union=200, first=100)
    fill = " ".join(["w000"] * 28)
    found = values("arxiv", f"{one} {fill}", f"{other} {' '.join(['w199'] * 50)} " + "-" * 70)
    assert found["vocabulary"] > 0
    assert found["shared_words"] == pytest.approx(expected)


def test_stopwords_are_not_shared_words() -> None:
    assert jaccard("the cat and the dog", "the bird or a fish") == 0.0
    assert jaccard("The cat", "a CAT and a dog") == 0.5
    assert jaccard("the of and", "the of and") == 0.0
    assert jaccard("", "") == 0.0


# Transitions: k of twelve categories.

ONE_OF_EACH = (
    "moreover", "for instance", "in other words", "therefore", "whereas", "next", "certainly",
    "overall", "likewise", "despite", "unless", "during",
)  # fmt: skip

COHERENCE = (0.0, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def test_one_of_each_category_is_in_no_other() -> None:
    assert [categories(phrase) for phrase in ONE_OF_EACH] == [{name} for name in TRANSITIONS]


@pytest.mark.parametrize("k", range(13))
def test_transitions_by_number_of_categories(values: Values, k: int) -> None:
    first = "zebra " * 10
    second = "zebra quux. " * 9 + ", ".join(ONE_OF_EACH[:k])
    found = values("tldr", first, second)
    assert found["shared_words"] == 1.0
    assert found["transitions"] == pytest.approx(COHERENCE[k])


def test_tldr_looks_for_transitions_in_the_detailed_text_only(values: Values) -> None:
    found = values("tldr", "zebra therefore " * 5, "zebra quux quuz quuux " * 6)
    assert found["vocabulary"] == 1.0
    assert found["transitions"] == 0.0


def test_arxiv_looks_for_transitions_in_both_texts(values: Values) -> None:
    first = "therefore moreover " + text(130, 900)
    second = text(130, 1300) + " overall"
    assert values("arxiv", first, second)["transitions"] == pytest.approx(0.5)


def test_a_phrase_does_not_reach_from_one_text_into_the_other(values: Values) -> None:
    first = text(130, 900) + " for"
    second = "example " + text(130, 1300)
    assert values("arxiv", first, second)["transitions"] == 0.0


def test_whole_words_by_default_and_substrings_as_published() -> None:
    assert categories("some of the asphalt") == set()
    assert categories("some of the asphalt", "substrings") == {"cause and effect", "time"}
    assert categories("So, it was wet.") == {"cause and effect"}
    assert categories("for\n  example, this") == {"example"}
    assert categories("IN OTHER WORDS") == {"explanation"}


@pytest.mark.parametrize(("matching", "expected"), [("words", 0.0), ("substrings", 0.4)])
def test_the_published_form_is_an_option(score: Score_, matching: str, expected: float) -> None:
    part = {"use": "transitions", "options": {"matching": matching}}
    result = score({"parts": {"t": part}}, {"a": "x", "b": "some"}, join="text")
    assert result.reward == pytest.approx(expected)


# Totals and reports.


def test_the_largest_total(values: Values) -> None:
    """Twelve categories give 0.95 of coherence: by its formula the maximum is never reached."""
    second = "The bridge keeper painted lamps: " + ", ".join(ONE_OF_EACH)
    found = values("tldr", "The bridge keeper painted " + "lamps " * 9, second)
    assert found["reward"] == pytest.approx(0.5 + 1.0 + 0.5 + 0.6 + 0.4 * 0.95)


@pytest.mark.parametrize("name", ["tldr", "arxiv"])
def test_levels_are_the_reported_groups(score: Score_, name: str) -> None:
    result = score(shipped_reward(name), {"a": "", "b": ""}, problem=problem_for(name), join="text")
    weights: dict[str, float] = {}
    for part in result.parts:
        weights[part.level] = weights.get(part.level, 0.0) + part.weight
    assert weights == pytest.approx(
        {"faithfulness": 0.0, "structure": 2.0, "consistency": 0.6, "coherence": 0.4}
    )


def test_reasons_carry_the_numbers(score: Score_) -> None:
    first, second = padded(10, 100), padded(22, 135, stem="v")
    artefacts = {"concise": first, "detailed": second}
    result = score(shipped_reward("tldr"), artefacts, problem=problem_for("tldr"), join="text")
    reasons = {part.name: part.reason for part in result.parts}
    assert reasons["length"] == "words: concise 10, detailed 22; wanted 8-256 each"
    assert reasons["ratio"] == (
        "characters: concise 100, detailed 135, ratio 1.35; wanted 1.6-3.2, within 1.1-5"
    )
    assert reasons["vocabulary"] == (
        "different words: concise 9, detailed 21, ratio 2.33; wanted 2 or more, at least 1.3"
    )
    assert reasons["shared_words"] == "0.000 of the content words are in both; wanted 0.03"
    assert reasons["transitions"] == "0 of 12 kinds of transition: none"
    assert reasons["faithfulness"] == "content words from 'prompt': concise 0%, detailed 0%"


# Teams.


def test_a_single_agent_separates_its_texts_by_a_blank_line(score: Score_, values: Values) -> None:
    first, second = padded(10, 100), padded(22, 200, stem="v")
    two = values("tldr", first, second)
    one = score(
        shipped_reward("tldr"),
        {"writer": f"{first}\n \n{second}"},
        problem=problem_for("tldr"),
        join="text",
    )
    assert one.maximum == pytest.approx(3.0)
    assert one.reward == pytest.approx(two["reward"]) == pytest.approx(2.0)


def test_a_single_agent_without_a_blank_line_has_no_second_text(score: Score_) -> None:
    result = score(
        shipped_reward("tldr"), {"writer": "word " * 20}, problem=problem_for("tldr"), join="text"
    )
    assert result.reward == 0.0
    assert "the rest 0" in result.parts[1].reason


def test_an_agent_that_does_not_write_is_passed_over(score: Score_) -> None:
    texts = {"planner": "Make it short.", "a": "One text here.", "b": "Another text, longer."}
    two = {name: texts[name] for name in ("a", "b")}
    roles = Roles(("a", "b"), "b", ("a",))
    kinds = {"problem": problem_for("tldr"), "join": "text"}
    found = score(shipped_reward("tldr"), texts, roles=roles, **kinds)
    assert found.parts == score(shipped_reward("tldr"), two, **kinds).parts


def test_three_agents_are_an_error(score: Score_) -> None:
    with pytest.raises(RewardError, match=r"the team has 3 agents \(a, b, c\)"):
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
def test_a_ramp_in_another_order_is_an_error(score: Score_, options: dict[str, Any]) -> None:
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


def test_repetition_is_clipped_to_the_source() -> None:
    assert clipped_precision("bridge bridge", SOURCE) == 1.0
    assert clipped_precision("bridge " * 8, SOURCE) == 0.25


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


def test_faithfulness_is_reported_whatever_the_gates_say(values: Values) -> None:
    found = values("tldr", "keeper bridge", "")
    assert found["reward"] == 0.0
    assert found["faithfulness"] == pytest.approx(0.5)


def test_faithfulness_needs_its_source(score: Score_) -> None:
    bare = Problem(address="x/0", public={"text": "?"})
    with pytest.raises(RewardError, match="no field 'prompt'"):
        score(shipped_reward("tldr"), {"a": "", "b": ""}, problem=bare, join="text")


# Anything that a model may write.


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
        ("a " * 200_000, "b " * 300_000),
        ("x" * 1_000_000, "y" * 1_000_000),
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
@settings(max_examples=150, deadline=None)
def test_any_text_gets_a_value_from_0_to_1(first: str, second: str, name: str) -> None:
    import asyncio

    from support.scoring import joined_score

    from collab.rewards import Scorer

    scorer = Scorer(shipped_reward(name), None)
    for artefacts in ({"a": first, "b": second}, {"a": f"{first}\n\n{second}"}):
        result = asyncio.run(
            joined_score(scorer, problem_for(name), artefacts, list(artefacts), "text")
        )
        assert all(0.0 <= part.value <= 1.0 for part in result.parts)
        assert 0.0 <= result.reward <= 3.0


@given(one=st.text(max_size=200), other=st.text(max_size=200))
@settings(deadline=None)
def test_measures_of_words_are_bounded_and_true_to_themselves(one: str, other: str) -> None:
    assert 0.0 <= jaccard(one, other) == jaccard(other, one) <= 1.0
    assert 0.0 <= clipped_precision(one, other) <= 1.0
    assert clipped_precision(one, one) == jaccard(one, one) == float(bool(content_words(one)))
    assert categories(one) <= categories(one, "substrings")
