"""A reward's declared metrics appear for any task in lists, reports and evaluations."""

import pytest
from support.episodes import make_episode, make_part, make_score

from collab.evaluation.values import task_values
from collab.recipe import RewardSpec
from collab.records import Episode
from collab.rewards.declared import measures_of, score_columns
from collab.rewards.library import language_of, title_of

TEXT = RewardSpec.model_validate(
    {
        "parts": {
            "clear": {"use": "length", "shown_as": "clarity", "best_of": "clarity"},
            "polite": {"use": "contains", "weight": 0},
        }
    }
)


def episodes(*values: float) -> list[Episode]:
    parts = [make_part("clear", value, 2.0) for value in values]
    return [make_episode("t", n, make_score(parts=(part,))) for n, part in enumerate(parts)]


def test_best_of_k_is_computed_for_a_text_part() -> None:
    values = task_values({"t": episodes(0.0, 1.0, 0.5)}, [1, 2], TEXT)
    assert values["clarity@1"]["t"] == pytest.approx(0.5)
    assert values["clarity@2"]["t"] == pytest.approx((1.0 + 1.0 + 0.5) / 3)
    assert "clarity@1" not in task_values({"t": episodes(0.0, 1.0)}, [1])


def test_shown_part_has_a_column() -> None:
    [column] = [item for item in score_columns(TEXT) if item.head == "clarity"]
    [episode] = episodes(0.25)
    assert episode.score is not None
    assert (column.cell(episode.score), column.value(episode.score)) == ("25%", 0.25)
    absent = make_score(parts=(make_part("clear", 1.0, 2.0, applies=False),))
    assert (column.cell(absent), column.value(absent)) == ("", None)


def test_programs_have_a_tests_column() -> None:
    score = make_score(tests=(3, 4))
    [column] = [item for item in score_columns(None) if item.cell(score)]
    assert (column.head, column.cell(score), column.value(score)) == ("tests", "3/4", 0.75)
    assert measures_of(score) == ["3 of 4 tests"]
    assert measures_of(make_score()) == []


def test_text_task_has_no_programming_language() -> None:
    text = make_score()
    assert language_of(text.model_copy(update={"isolation": None})) is None
    assert language_of(text.model_copy(update={"isolation": "sealed"})) == "python"


def test_title_of_a_problem_is_its_signature_and_first_sentence() -> None:
    prompt = (
        'import re\n\ndef add(a, b):\n    """ Add\n    two. Or more.\n    >>> add(1, 2)\n    """'
    )
    title = title_of({"prompt": prompt, "entry_point": "add"})
    assert title == "def add(a, b): Add two."
    assert title_of({"prompt": "def or not def"}) is None
