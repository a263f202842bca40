"""The writing rewards as a whole: totals, teams, faithfulness, and arbitrary text."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.writing import ONE_OF_EACH, SOURCE, problem_for, shipped_reward, text

from collab.errors import RewardError
from collab.recipe.team import Roles
from collab.records import Problem, Score
from collab.rewards.writing.pairs import categories
from collab.rewards.writing.sentences import clipped_precision, content_words, jaccard

Score_ = Callable[..., Score]
Values = Callable[..., dict[str, float]]


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

    from support.scoring import joined_score

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
