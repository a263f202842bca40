"""A row can name the helper's function, for rewards, feedback and the join."""

import json
from pathlib import Path

import pytest
from support.scoring import Score_
from support.writing import shipped_reward

import collab
from collab.errors import TaskError
from collab.recipe.team import Roles
from collab.records import Episode, Problem

SQUARE = "def square(x):\n    return x * x"
MAIN = "def sum_of_squares(xs):\n    return sum(square(x) for x in xs)"
BY_AGENT = {
    "hand": "def hand(x):\n    return x * x",
    "lead": "def sum_of_squares(xs):\n    return sum(hand(x) for x in xs)",
}
LAZY = f"{SQUARE}\n\n{MAIN}"
WRONG = "def square(x):\n    return x"
ROW = {
    "prompt": 'def sum_of_squares(xs):\n    """Add the squares."""\n',
    "entry_point": "sum_of_squares",
    "helper_name": "square",
    "test": "def check(candidate):\n    assert candidate([1, 2]) == 5\n",
}
ROLES = Roles(("hand", "lead"), "lead", ("hand",))


@pytest.fixture
def named(problem: Problem) -> Problem:
    return problem.model_copy(update={"public": {**problem.public, "helper_name": "square"}})


@pytest.mark.parametrize("reward", ["code", "code-correct-first", "pocket-code"])
def test_main_calling_the_helper_of_the_row_earns_the_maximum(
    score: Score_, named: Problem, reward: str
) -> None:
    artifacts = {"hand": SQUARE, "lead": MAIN}
    result = score(shipped_reward(reward), artifacts, problem=named, roles=ROLES)
    assert result.reward == pytest.approx(result.maximum)
    assert "'square' is defined and returns a value" in [part.reason for part in result.parts]


def test_row_helper_name_replaces_the_agent_name(score: Score_, named: Problem) -> None:
    result = score(shipped_reward("code"), BY_AGENT, problem=named, roles=ROLES)
    values = {part.name: part.value for part in result.parts}
    assert (values["helper_defined"], values["tests"], values["calls"]) == (0.0, 1.0, 0.0)


def test_option_overrides_the_row(score: Score_, named: Problem) -> None:
    part = {"use": "calls", "options": {"helper_function": "hand"}}
    assert score({"parts": {"calls": part}}, BY_AGENT, problem=named, roles=ROLES).reward == 1.0


def played(folder: Path, hand: str, lead: str, *settings: str) -> Episode:
    """Play a team whose entry agent is not named main and is not the last one."""
    (folder / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    (folder / "script.json").write_text(json.dumps({"hand": [hand] * 2, "lead": [lead] * 2}))
    agent = {"parser": "python", "prompt": "{{ task.prompt }}{{ task.helper_name }}"}
    team = {
        "entry": "lead",
        "join": "python-owned",
        "turns": 2,
        "feedback": ["static"],
        "agents": {"lead": agent, "hand": agent},
    }
    (folder / "team.yaml").write_text(json.dumps(team))
    with collab.load(
        str(folder / "team.yaml"),
        task=str(folder / "rows.jsonl"),
        model=f"scripted:{folder / 'script.json'}",
        settings=["team.when_solved=continue", *settings],
    ) as loaded:
        return loaded.run(f"{folder / 'rows.jsonl'}/0").episode


@pytest.mark.parametrize(
    ("hand", "join", "solved"),
    [
        (SQUARE, "python-owned", True),
        (WRONG, "python-owned", False),
        (WRONG, "python", False),  # the helper's code is last
    ],
)
def test_owned_join_uses_the_helper(tmp_path: Path, hand: str, join: str, solved: bool) -> None:
    episode = played(tmp_path, hand, LAZY, f"team.join={join}")
    assert episode.failure is None
    assert episode.score is not None
    assert episode.score.solved is solved
    assert ("def square_dropped(x)" in episode.turns[0].joint) is (join == "python-owned")


@pytest.mark.parametrize(("join", "calls"), [("python-owned", 1.0), ("python", 0.0)])
def test_a_renamed_copy_does_not_hide_the_call(tmp_path: Path, join: str, calls: float) -> None:
    episode = played(tmp_path, SQUARE, LAZY, f"team.join={join}", "task.reward=code-parts")
    assert episode.score is not None
    assert {p.name: p.value for p in episode.score.parts}["calls"] == calls


def test_feedback_uses_the_helper_name_of_the_row(tmp_path: Path) -> None:
    [text] = {
        item.text
        for d in played(tmp_path, SQUARE, MAIN).turns[0].feedback.values()
        for item in d
        if "calls" in item.text
    }
    assert "`sum_of_squares` calls `square` and uses its value" in text


@pytest.mark.parametrize(("value", "message"), [("", "empty"), (7, "of type int, not text")])
def test_invalid_helper_name_is_refused(tmp_path: Path, value: object, message: str) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ROW, "helper_name": value}) + "\n")
    with pytest.raises(TaskError, match=f"line 1: the field 'helper_name' is {message}"):
        collab.load("coding", task=str(tmp_path / "rows.jsonl"), model="echo").run(
            f"{tmp_path / 'rows.jsonl'}/0"
        )
