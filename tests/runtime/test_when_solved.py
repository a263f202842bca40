"""Turns after the one that solves the task."""

import json
from pathlib import Path

import pytest
from support.episodes import make_episode, make_score
from support.recipes import recipe_from

from collab.evaluation.values import task_values
from collab.records import Episode
from collab.records.episode import solved_by_turn
from collab.runtime import Team

ONE = """\
team: {name: one, protocol: single, join: python, agents: {main: {prompt: write, parser: text}}}
task:
  name: programs
  kind: code
  reward: {parts: {syntax: {use: parses, weight: 1.5}, tests: {use: tests, weight: 1.0}}}
"""
RIGHT, WRONG = "def f():\n    return 1\n", "def f():\n    return 0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    row = {
        "task_id": "0",
        "prompt": "def f():\n",
        "test": "def check(candidate):\n    assert candidate() == 1\n",
        "entry_point": "f",
    }
    (tmp_path / "programs.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def play(folder: Path, *answers: str, turns: int, **team: str) -> Episode:
    (folder / "script.yaml").write_text(json.dumps({"main": answers}))
    source = {"path": str(folder / "programs.jsonl")}
    model = f"scripted:{folder / 'script.yaml'}"
    recipe = recipe_from(ONE, model=model, team={"turns": turns, **team}, task={"source": source})
    episode = Team(recipe).run("programs/0").episode
    assert episode.failure is None
    return Episode.model_validate_json(episode.model_dump_json())


def test_a_solved_task_is_an_absorbing_state(folder: Path) -> None:
    episode = play(folder, RIGHT, turns=3)
    assert (len(episode.turns), episode.horizon, episode.unplayed) == (1, 3, 2)
    assert episode.rewards == (2.5, 2.5, 2.5)
    assert (episode.joint_return, episode.largest_return) == (7.5, 7.5)


def test_absorbing_state_is_reached_in_a_later_turn(folder: Path) -> None:
    episode = play(folder, WRONG, RIGHT, turns=3)
    assert episode.rewards == (1.5, 2.5, 2.5)
    assert (episode.joint_return, episode.largest_return) == (6.5, 7.5)


def test_stop_counts_only_the_played_turns(folder: Path) -> None:
    episode = play(folder, RIGHT, turns=3, when_solved="stop")
    assert (len(episode.turns), episode.unplayed, episode.rewards) == (1, 2, (2.5,))
    assert (episode.joint_return, episode.largest_return) == (2.5, 7.5)


def test_continue_plays_every_turn(folder: Path) -> None:
    episode = play(folder, RIGHT, WRONG, RIGHT, turns=3, when_solved="continue")
    assert (len(episode.turns), episode.unplayed) == (3, 0)
    assert episode.rewards == (2.5, 1.5, 2.5)
    assert episode.joint_return == 6.5


def test_an_unsolved_task_is_played_to_the_end(folder: Path) -> None:
    assert play(folder, WRONG, WRONG, turns=2).rewards == (1.5, 1.5)


@pytest.mark.parametrize("when_solved", ["absorb", "stop", "continue"])
def test_task_solved_early_counts_as_solved_in_later_turns(folder: Path, when_solved: str) -> None:
    more = 1 if when_solved == "continue" else 0
    solved_second = play(folder, WRONG, RIGHT, *[RIGHT] * more, turns=3, when_solved=when_solved)
    solved_first = play(folder, RIGHT, *[RIGHT] * 2 * more, turns=3, when_solved=when_solved)
    unsolved = play(folder, WRONG, WRONG, WRONG, turns=3, when_solved=when_solved)
    assert solved_second.solved_by_turn == (False, True, True)
    assert solved_first.solved_by_turn == (True, True, True)
    assert unsolved.solved_by_turn == (False, False, False)
    shares = dict(solved_by_turn([solved_second, solved_first, unsolved]))
    assert shares == {1: pytest.approx(1 / 3), 2: pytest.approx(2 / 3), 3: pytest.approx(2 / 3)}
    found = task_values({"programs/0": [solved_second, solved_first, unsolved]}, [1])
    assert found["solved/turn_1"]["programs/0"] == pytest.approx(1 / 3)
    assert found["solved/turn_3"] == found["solved"] == found["pass@1"]


def test_a_game_that_ended_early_counts_by_its_end() -> None:
    won = make_episode("a", 0, make_score(solved=True), horizon=1)
    lost = make_episode("b", 0, *[make_score(solved=False)] * 3, horizon=3)
    assert dict(solved_by_turn([won, lost])) == {1: 0.5, 2: 0.5, 3: 0.5}
    found = task_values({"a": [won], "b": [lost]}, [1])
    assert found["solved/turn_1"] == found["solved/turn_3"] == {"a": 1.0, "b": 0.0}


def test_single_turn_teams_have_no_solved_by_turn(folder: Path) -> None:
    assert not dict(solved_by_turn([play(folder, RIGHT, turns=1)]))


def test_a_failed_episode_has_no_reward() -> None:
    episode = make_episode("t", 0, make_score(), make_score(), failed=True)
    assert (episode.reward, episode.joint_return, episode.solved) == (None, None, False)
    assert (episode.rewards, episode.solved_by_turn) == ((), ())
    assert episode.turns[1].score, "the record keeps the score"
