"""Training in games: credit per agent, trees by replay, and unsupported crossing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.games import make_match
from support.trainer_recipes import steps_of

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode, Score, read_episodes
from collab.trainers import TrainingRun
from collab.trainers.credit.group import reward_of
from collab.trainers.training.check import check_recipe

NIM = {"use": "nim", "options": {"heaps": [2, 1]}}


@pytest.fixture
def project(here: Path) -> Path:
    make_match(here)
    return here


def recipe_of(
    model: Path, environment: Any, *, seats: tuple[str, str], turns: int, **trainer: Any
) -> Recipe:
    agent = {"prompt": "say {{ observation }}"}
    return Recipe.model_validate(
        {
            "name": "play",
            "model": {"name": str(model), "dtype": "float32", "device": "cpu"},
            "sampling": {"max_new_tokens": 1},
            "team": {"name": "pair", "turns": turns, "agents": dict.fromkeys(seats, agent)},
            "task": {"name": "play", "kind": "environment", "environment": environment},
            "trainer": {"steps": 2, "learning_rate": 1e-2, "tasks_per_step": 2, **trainer},
        }
    )


def match(model: Path, turns: int = 2, **trainer: Any) -> Recipe:
    options = {"rounds": turns, "words": ["left", "right"]}
    environment = {"use": "games.py:Match", "options": options}
    return recipe_of(model, environment, seats=("a", "b"), turns=turns, **trainer)


def train(recipe: Recipe, run: Path) -> tuple[list[dict[str, Any]], list[Episode]]:
    asyncio.run(TrainingRun(recipe, run).run())
    return steps_of(run), list(read_episodes(run))


def test_agent_earns_its_own_and_the_team_reward() -> None:
    score = Score(reward=0.0, maximum=0.0, by_agent={"a": 2.0, "b": -2.0})
    spec = TrainerSpec(team_weight=0.5)
    assert [reward_of(score, agent, spec) for agent in "ab"] == [1.0, -1.0]
    assert reward_of(Score(reward=3.0, maximum=3.0), "a", spec) == 1.5


def test_self_play_with_one_adapter(project: Path, tiny_words: Path) -> None:
    recipe = recipe_of(
        tiny_words,
        NIM,
        seats=("x", "y"),
        turns=3,
        algorithm="rae",
        group_size=1,
        policies="shared_adapter",
    )
    steps, episodes = train(recipe, project / "run")
    assert all(e.return_of("x") == -1.0 for e in episodes), "x never makes a legal move"
    assert [(row["agent/x/return"], row["agent/y/return"]) for row in steps] == [(-1.0, 1.0)] * 2
    assert steps[0]["return/mean"] == 0.0
    assert steps[0]["credit/x/average"] < 0 < steps[0]["credit/y/average"]
    assert not any(e.decisions("y") for e in episodes), "the game ends before y's turn"
    assert steps[0]["loss/shared"] != 0.0


def test_tree_replays_the_earlier_turns(project: Path, tiny_words: Path) -> None:
    recipe = match(tiny_words, turn_structure="tree", group_size=2, steps=1)
    _, episodes = train(recipe, project / "run")
    by_task: dict[str, list[Episode]] = {}
    for episode in episodes:
        assert episode.failure is None
        by_task.setdefault(episode.task, []).append(episode)
    for group in by_task.values():
        assert [e.sample for e in group] == [0, 1, 2, 3]
        assert group[0].turns[0] == group[1].turns[0] != group[2].turns[0]
        for episode in group:
            answers = [dict(turn.artifacts) for turn in episode.turns]
            assert all(word in episode.turns[1].joint for word in answers[0].values())


def test_joint_actions_of_one_turn_are_crossed(project: Path, tiny_words: Path) -> None:
    recipe = match(tiny_words, turns=1, algorithm="cross", group_size=3)
    steps, _ = train(recipe, project / "run")
    assert steps[0]["joint_actions/scored"] > 0
    assert "failures/RecipeError" not in steps[0]
    assert steps[0]["credit/a/crossed"] == 1.0


@pytest.mark.parametrize(
    "trainer",
    [{"algorithm": "cross"}, {"algorithm": "removal"},
     {"algorithm": "cross", "turn_structure": "tree"}],
)  # fmt: skip
def test_crossing_a_game_of_several_turns_is_refused(
    project: Path, tiny_words: Path, trainer: dict[str, Any]
) -> None:
    with pytest.raises(
        RecipeError, match="in a game of 2 turns their value depends on earlier turns"
    ):
        check_recipe(match(tiny_words, **trainer))


def test_greedy_structure_in_a_zero_sum_game_is_refused(tiny_words: Path) -> None:
    recipe = recipe_of(tiny_words, NIM, seats=("x", "y"), turns=3, turn_structure="greedy")
    with pytest.raises(RecipeError, match="always 0 in a zero-sum game"):
        check_recipe(recipe)
