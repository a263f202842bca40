"""A text task whose reward decides when it is solved: early end, feedback, pass@k, training."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.recipes import recipe_from
from support.tiny_words import save_tiny

from collab.evaluation.values import task_values
from collab.recipe import Recipe, RewardSpec
from collab.records import Episode, Score, read_episodes
from collab.runtime import Team
from collab.trainers import TrainingRun

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
def folder(here: Path) -> Path:
    row = {"task_id": "0", "prompt": "The capital of Italy?", "answer": "Rome"}
    (here / "capitals.jsonl").write_text(json.dumps(row) + "\n")
    (here / "parts.py").write_text(PARTS)
    return here


def recipe(parts: dict[str, Any], **top: Any) -> Recipe:
    return recipe_from(CAPITALS, task={"reward": {"parts": parts}}, **top)


def play(parts: dict[str, Any], *answers: str, **team: Any) -> Episode:
    Path("script.yaml").write_text(json.dumps({"a": answers}))
    task_recipe = recipe(parts, model="scripted:script.yaml", team=team)
    episode = Team(task_recipe).run("capitals/0").episode
    assert episode.failure is None, episode.failure
    return episode


def test_exact_answer_ends_the_episode_and_counts_for_later_turns(folder: Path) -> None:
    episode = play(EXACT, "Rome")
    assert episode.solved
    assert (len(episode.turns), episode.unplayed, episode.joint_return) == (1, 1, 4.0)
    assert episode.score is not None
    assert episode.score.isolation is None, "no program was run"


def test_wrong_answer_gets_feedback_and_another_turn(folder: Path) -> None:
    episode = play(EXACT, "Paris", "Rome", feedback=["solved"])
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
    folder: Path, parts: dict[str, Any], answer: str, solved: bool | None
) -> None:
    score = play(parts, answer, turns=1).score
    assert score is not None
    assert score.solved is solved


def test_part_with_a_negative_weight_cannot_solve() -> None:
    with pytest.raises(ValueError, match="'solves' is set and the weight is -1"):
        RewardSpec.model_validate({"parts": {"a": {"use": "equals", "solves": True, "weight": -1}}})


def test_older_records_with_passed_are_read_as_solved() -> None:
    old = '{"reward": 1.0, "maximum": 1.0, "passed": true}'
    assert Score.model_validate_json(old).solved is True
    assert '"solved":true' in Score.model_validate_json(old).model_dump_json()


def test_text_task_has_pass_at_k(folder: Path) -> None:
    group = [play(EXACT, *answers) for answers in (["Rome"], ["Paris", "Lyon"])]
    values = task_values({"capitals/0": group}, [1, 2])
    assert values["solved"] == values["pass@1"] == {"capitals/0": 0.5}
    assert values["pass@2"] == {"capitals/0": 1.0}


def test_text_task_is_trained_and_solved(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = save_tiny(tmp_path_factory.mktemp("capitals"), ("Rome", "Paris"), hidden=64, spread=0.1)
    task_recipe = recipe(
        EXACT,
        model={"name": str(model), "dtype": "float32", "device": "cpu"},
        sampling={"max_new_tokens": 1},
        trainer={"steps": 25, "group_size": 8, "learning_rate": 0.01, "checkpoint_every": 1000},
    )
    asyncio.run(TrainingRun(task_recipe, folder / "run").run())
    last = list(read_episodes(folder / "run"))[-24:]
    assert sum(len(episode.turns) == 1 and episode.solved for episode in last) > 20
    rows = [
        json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    shares = [row["solved"] for row in rows if "solved" in row]
    assert shares[-1] > shares[0]
