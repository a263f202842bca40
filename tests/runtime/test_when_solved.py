"""When a task is solved: its reward decides, and later turns follow."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.episodes import make_episode, make_score
from support.recipes import recipe_from
from support.tiny_words import save_tiny

from collab.evaluation.values import task_values
from collab.recipe import Recipe, RewardSpec
from collab.records import Episode, read_episodes
from collab.records.episode import solved_by_turn
from collab.runtime import Team
from collab.trainers import TrainingRun

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


CAPITALS = """\
team: {name: one, protocol: single, turns: 2, agents: {a: {prompt: you, revise: end}}}
task: {name: capitals, kind: text, source: {path: capitals.jsonl}, hidden: [answer]}
"""
PARTS = """\
from collab.rewards import Part
def close(context):
    return Part(0.5, "close enough", solved="Ro" in context.joint.text)
"""
EXACT = {"right": {"use": "equals", "weight": 2, "options": {"field": "answer"}, "solves": True}}


@pytest.fixture
def capitals(here: Path) -> Path:
    row = {"task_id": "0", "prompt": "The capital of Italy?", "answer": "Rome"}
    (here / "capitals.jsonl").write_text(json.dumps(row) + "\n")
    (here / "parts.py").write_text(PARTS)
    return here


def recipe(parts: dict[str, Any], **top: Any) -> Recipe:
    return recipe_from(CAPITALS, task={"reward": {"parts": parts}}, **top)


def answer_with(parts: dict[str, Any], *answers: str, **team: Any) -> Episode:
    Path("script.yaml").write_text(json.dumps({"a": answers}))
    task_recipe = recipe(parts, model="scripted:script.yaml", team=team)
    episode = Team(task_recipe).run("capitals/0").episode
    assert episode.failure is None, episode.failure
    return episode


def test_exact_answer_ends_the_episode_and_counts_for_later_turns(capitals: Path) -> None:
    episode = answer_with(EXACT, "Rome")
    assert episode.solved
    assert (len(episode.turns), episode.unplayed, episode.joint_return) == (1, 1, 4.0)
    assert episode.score is not None
    assert episode.score.isolation is None, "no program was run"


def test_wrong_answer_gets_feedback_and_another_turn(capitals: Path) -> None:
    episode = answer_with(EXACT, "Paris", "Rome", feedback=["solved"])
    assert [turn.score.solved for turn in episode.turns if turn.score] == [False, True]
    assert episode.turns[0].feedback["a"][0].text == "Result: not solved yet."


@pytest.mark.parametrize(
    ("parts", "answer", "solved"),
    [
        ({"right": {**EXACT["right"], "solves": False}}, "Rome", None),
        ({"said": {"use": "parts.py:close"}}, "Rooome", True),
        ({"said": {"use": "parts.py:close"}}, "Paris", False),
        ({**EXACT, "said": {"use": "parts.py:close"}}, "Rooome", False),
        ({**EXACT, "short": {"use": "length", "options": {"maximum": 9}}}, "Rome", True),
        (
            {"gate": {"use": "contains", "gate": True, "options": {"phrases": ["x"]}}, **EXACT},
            "Rome",
            False,
        ),
        ({**EXACT, "far": {**EXACT["right"], "options": {"field": "prompt"}}}, "Rome", False),
        (
            {**EXACT, "b": {**EXACT["right"], "options": {"field": "answer", "agent": "b"}}},
            "Rome",
            True,
        ),
    ],
    ids=[
        "unmarked",
        "function solves",
        "function fails",
        "both",
        "other part",
        "gate",
        "several",
        "does not apply",
    ],
)
def test_parts_decide_whether_the_task_is_solved(
    capitals: Path, parts: dict[str, Any], answer: str, solved: bool | None
) -> None:
    score = answer_with(parts, answer, turns=1).score
    assert score is not None
    assert score.solved is solved


def test_part_with_a_negative_weight_cannot_solve() -> None:
    with pytest.raises(ValueError, match="'solves' is set and the weight is -1"):
        RewardSpec.model_validate({"parts": {"a": {"use": "equals", "solves": True, "weight": -1}}})


def test_text_task_has_pass_at_k(capitals: Path) -> None:
    group = [answer_with(EXACT, *answers) for answers in (["Rome"], ["Paris", "Lyon"])]
    values = task_values({"capitals/0": group}, [1, 2])
    assert values["solved"] == values["pass@1"] == {"capitals/0": 0.5}
    assert values["pass@2"] == {"capitals/0": 1.0}


def test_text_task_is_trained_and_solved(
    capitals: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = save_tiny(tmp_path_factory.mktemp("capitals"), ("Rome", "Paris"), hidden=64, spread=0.1)
    task_recipe = recipe(
        EXACT,
        model={"name": str(model), "dtype": "float32", "device": "cpu"},
        sampling={"max_new_tokens": 1},
        trainer={"steps": 25, "group_size": 8, "learning_rate": 0.01, "checkpoint_every": 1000},
    )
    asyncio.run(TrainingRun(task_recipe, capitals / "run").run())
    last = list(read_episodes(capitals / "run"))[-24:]
    assert sum(len(episode.turns) == 1 and episode.solved for episode in last) > 20
    rows = [
        json.loads(line) for line in (capitals / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    shares = [row["solved"] for row in rows if "solved" in row]
    assert shares[-1] > shares[0]
