"""Easy tasks first: a run moves on when a level is learned, and so does one that was stopped."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError, TrainingError
from collab.recipe import LevelsSpec, TaskSpec, TrainerSpec
from collab.records import Episode, Problem, Score, Turn
from collab.runs.checkpoint import LevelsState
from collab.tasks import open_suite
from collab.trainers.training.data import Levels, TaskOrder, choose_tasks

SUITE = TaskSpec.model_validate(
    {"source": {"path": "none.jsonl"}, "reward": {"parts": {"same": {"use": "same"}}}}
)


def order(*levels: Any, per_step: int = 2) -> TaskOrder:
    problems = [
        Problem(address=f"s/{n}", public={} if level is None else {"level": level})
        for n, level in enumerate(levels)
    ]
    return TaskOrder(tuple(problems), (), per_step, 0, SUITE)


def test_tasks_are_shuffled_once_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = []
    shuffle = random.Random.shuffle
    monkeypatch.setattr(
        random.Random, "shuffle", lambda *args: (shuffled.append(1), shuffle(*args))[1]
    )
    tasks = TaskOrder((Problem(address="s/0", public={}),) * 1000, (), 100, 0, SUITE)
    assert [len(tasks.batch(step)) for step in range(20)] == [100] * 20
    assert len(shuffled) == 2


def played(*rewards: float, solved: bool | None = None) -> list[list[Episode]]:
    """A group of episodes of one turn by their rewards of 4; those of 4 are solved."""
    return [
        [
            Episode(
                id=f"s/0#{n}",
                task="s/0",
                team="t",
                horizon=1,
                turns=(
                    Turn(
                        index=0,
                        decisions=(),
                        score=Score(
                            reward=reward,
                            maximum=4.0,
                            solved=reward == 4.0 if solved is None else None,
                            parts=(),
                        ),
                    ),
                ),
            )
            for n, reward in enumerate(rewards)
        ]
    ]


def take(levels: Levels, step: int, *rewards: float) -> None:
    levels.add(step, levels.share(played(*rewards)))


def test_it_begins_with_the_easiest_and_moves_on_when_that_is_learned() -> None:
    levels = Levels(order(3, 1, 2, 1, 10), LevelsSpec(above=0.5, steps=2))
    seen: list[tuple[float | None, list[str]]] = []
    for step, rewards in enumerate([(4, 4), (4, 0), (0, 0), (4, 4), (4, 0), (4, 4), (4, 4)]):
        seen.append((levels.level, sorted(p.address for p in levels.batch(step))))
        take(levels, step, *rewards)
    seen.append((levels.level, []))
    assert [level for level, _ in seen] == [1, 1, 2, 2, 2, 3, 3, 10], "numbers, not words"
    assert [tasks for _, tasks in seen[:3]] == [["s/1", "s/3"], ["s/1", "s/3"], ["s/2"]]


def test_the_mean_is_over_steps_of_this_level() -> None:
    levels = Levels(order(1, 2, 3), LevelsSpec(above=0.9, steps=3))
    seen = []
    for step in range(6):
        take(levels, step, 4)
        seen.append(levels.level)
    assert seen == [1, 1, 2, 2, 2, 3], "after the move, two steps are not three"


def test_the_last_level_lasts() -> None:
    levels = Levels(order(1, 2), LevelsSpec(above=0.0, steps=1))
    for step in range(9):
        take(levels, step, 4)
    assert levels.level == 2


def test_every_task_of_a_level_is_met_before_one_comes_again() -> None:
    levels = Levels(order(*[1] * 6, *[2] * 6), LevelsSpec(above=0.9, steps=1))
    take(levels, 0, 0)
    take(levels, 1, 4)
    met = [p.address for step in (2, 3, 4) for p in levels.batch(step)]
    assert sorted(met) == [f"s/{n}" for n in (10, 11, 6, 7, 8, 9)]


def test_the_share_of_the_largest_return() -> None:
    levels = Levels(order(1, 2), LevelsSpec(above=0.6, steps=1, by="return"))
    assert levels.share(played(4, 2, 0)) == pytest.approx(0.5)
    levels.add(0, 0.6)
    assert levels.level == 1, "equal to the bound is not above it"
    levels.add(1, 0.61)
    assert levels.level == 2


def test_failed_episodes_count_for_nothing() -> None:
    levels = Levels(order(1, 2), LevelsSpec(steps=1))
    assert levels.share([[]]) is None
    levels.add(0, None)
    assert levels.level == 1


def test_a_reward_that_says_nothing_of_solved_is_told() -> None:
    levels = Levels(order(1, 2), LevelsSpec())
    with pytest.raises(TrainingError, match=r"set trainer.levels.by to 'return'"):
        levels.share(played(1, 2, solved=False))


def test_without_levels_all_tasks_are_taken() -> None:
    tasks = order(1, 2, 3, 4)
    levels = Levels(tasks, None)
    assert levels.level is None
    assert levels.share(played(4)) is None
    assert [levels.batch(step) for step in range(4)] == [tasks.batch(step) for step in range(4)]


def test_the_state_goes_on_and_outlives_a_change_of_the_tasks() -> None:
    spec = LevelsSpec(above=0.5, steps=2)
    levels = Levels(order(1, 1, 2, 2, 3, 3), spec)
    for step in range(3):
        take(levels, step, 4)
    state = LevelsState.model_validate_json(json.dumps(levels.state()))
    again = Levels(order(1, 1, 2, 2, 3, 3), spec)
    again.restore(state)
    assert (again.level, again.batch(3)) == (2, levels.batch(3))
    take(again, 3, 4)
    assert again.level == 3, "the step before the stop counts"
    without = Levels(order(1, 1, 3, 3), spec)
    without.restore(state)
    assert without.level == 3
    Levels(order(1, 1), None).restore(state)


@pytest.mark.parametrize("level", [None, "hard", True])
def test_a_task_without_a_level_is_refused(level: Any) -> None:
    with pytest.raises(
        RecipeError, match=r"needs a number in the field 'level' of every task.*s/1"
    ):
        Levels(order(1, level), LevelsSpec())


def test_a_field_that_is_not_there_is_told_before_any_work(
    tiny_words: Path, tmp_path: Path
) -> None:
    recipe = make_game(tiny_words, tmp_path, levels={"field": "hardness"})
    assert recipe.trainer is not None
    with pytest.raises(
        RecipeError, match=r"'hardness' of every task, and game/0 has no such field"
    ):
        choose_tasks(recipe, recipe.trainer)


def test_levels_need_an_end_that_is_counted() -> None:
    with pytest.raises(ValidationError, match="set steps, or tokens"):
        TrainerSpec.model_validate({"levels": {}})
    assert TrainerSpec.model_validate({"levels": {}, "tokens": 10}).levels == LevelsSpec()


def test_it_resumes_bit_by_bit_after_a_level_is_learned(tiny_words: Path, tmp_path: Path) -> None:
    levels = {"above": 0.0, "steps": 3, "by": "return"}
    rows = check_resume("marloo", tiny_words, tmp_path, levels=levels, steps=4)
    assert [row["level"] for row in rows] == [1, 1, 1, 2]


def test_the_shipped_suite_has_three_levels() -> None:
    from collab.recipe import load_recipe

    recipe = load_recipe("pocket", task="pocket-levels", trainer="sft")
    assert recipe.task is not None
    suite = open_suite(recipe.task)
    for split, each in (("train", 40), ("test", 10)):
        levels = [problem.public["level"] for problem in suite.select(split)]
        assert levels == [1] * each + [2] * each + [3] * each
