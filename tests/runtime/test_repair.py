"""The protocol `repair`: the prompt's examples decide whether an answer is repaired."""

import json
from pathlib import Path
from typing import Any

import pytest

import collab
from collab.errors import RecipeError
from collab.records import Episode, Feedback, Finding, Usage
from collab.runtime.problems import find_problems
from collab.runtime.prompt_check import check_prompts

RIGHT = "\ndef longest(strings):\n    return max(strings, key=len, default=None)\n```"
WRONG = "\ndef longest(strings):\n    return strings[0]\n```"
LUCKY = RIGHT.replace("default=None)", "default=None) if len(strings) < 4 else ''")


def play(
    folder: Path, answers: dict[str, list[str]], team: str = "coding-repair", *settings: str
) -> Episode:
    (folder / "script.yaml").write_text(json.dumps(answers))
    loaded = collab.load(team, model="scripted:script.yaml", settings=settings)
    return loaded.run("humaneval/12").episode


def test_a_failing_example_is_repaired(project: Path) -> None:
    episode = play(project, {"coder": [WRONG], "repairer": [RIGHT]})
    assert [d.agent for d in episode.turns[0].decisions] == ["coder", "repairer"]
    request = episode.decisions("repairer")[0].observation[-1].content
    assert "return strings[0]" in request
    assert "examples in the prompt hold." in request
    assert "expected 'ccc', got 'a'" in request
    assert episode.turns[0].joined == ("repairer",)
    assert episode.solved


def test_nothing_is_repaired_once_the_examples_pass(project: Path) -> None:
    episode = play(project, {"coder": [RIGHT]})
    assert [d.agent for d in episode.turns[0].decisions] == ["coder"]
    assert episode.turns[0].joined == ("coder",)
    assert episode.solved


def test_hidden_tests_do_not_decide(project: Path) -> None:
    """This answer passes the examples and fails a hidden test with six strings."""
    episode = play(project, {"coder": [LUCKY]})
    assert len(episode.turns[0].decisions) == 1
    assert not episode.solved


def test_one_agent_repairs_its_own_answer_several_times(project: Path) -> None:
    protocol = "team.protocol={use: repair, options: {rounds: 2}}"
    answers = {"main": [WRONG, WRONG, RIGHT]}
    episode = play(project, answers, "coding-single", protocol)
    assert len(episode.turns[0].decisions) == 3
    assert episode.solved
    first = play(project, {"main": [WRONG, WRONG]}, "coding-single", "team.protocol=repair")
    assert len(first.turns[0].decisions) == 2
    assert not first.solved


def test_a_team_without_feedback_is_refused(project: Path) -> None:
    with pytest.raises(RecipeError, match=r"asks for feedback.*set\s+team.feedback"):
        play(project, {"coder": [WRONG]}, "coding-repair", "team.feedback=[]")


def test_a_plan_counts_every_repair(project: Path) -> None:
    settings = ["team.protocol={use: repair, options: {rounds: 3}}"]
    recipe = collab.load("coding-repair", settings=settings).recipe
    found, problems = find_problems(recipe, ["humaneval/12"])
    played = check_prompts(found, problems)
    assert [request.call.agent for request in played.requests] == ["coder"] + 3 * ["repairer"]
    assert played.warnings == ()


def test_feedback_is_about_the_current_answer(project: Path) -> None:
    """The repairer uses a helper that only the coder wrote, so its program fails alone."""
    coder = "\ndef pick(strings):\n    return max(strings, key=len)\n\n" + WRONG.lstrip()
    borrows = "\ndef longest(strings):\n    return pick(strings) if strings else None\n```"
    settings = "team.protocol={use: repair, options: {rounds: 2}}"
    answers = {"coder": [coder], "repairer": [borrows, RIGHT]}
    episode = play(project, answers, "coding-repair", settings)
    assert [d.agent for d in episode.turns[0].decisions] == ["coder", "repairer", "repairer"]
    assert episode.solved
    assert episode.turns[0].feedback == {}, "feedback on a replaced answer is dropped"


def test_repair_depends_on_the_examined_answer(project: Path) -> None:
    episode = play(project, {"coder": [WRONG], "repairer": [RIGHT]})
    assert episode.decisions("repairer")[0].saw == ("coder",)


def test_tokens_of_every_consultation_are_counted() -> None:
    def complains(outcome: Any) -> dict[str, Feedback]:
        error = Finding(source="own", code="e", severity="error", message="wrong")
        usage = Usage(prompt_tokens=10, new_tokens=5)
        given = Feedback(source="own", text="Wrong.", findings=(error,), usage=usage)
        return {outcome.agents[0]: given}

    protocol = {"use": "repair", "options": {"coder": "b", "repairer": "a", "rounds": 2}}
    agents = {name: collab.Agent(prompt=name + " {{ task.prompt }}") for name in "ab"}
    made = collab.Team(
        agents=agents, model="echo", protocol=protocol, feedback=[complains], turns=2,
        rewards=[lambda context: 0.5],
    )  # fmt: skip
    rollout = made.run([{"prompt": "x"}])
    used = next(use for name, use in rollout.summary["agents"].items() if "(feedback)" in name)
    assert (used["prompt_tokens"], used["new_tokens"]) == (50, 25)
    first, second = rollout.episode.turns
    assert [item.text for item in first.feedback["a"]] == ["Wrong.", "", ""]
    assert [item.text for item in second.feedback["a"]] == ["", ""]


def test_solved_feedback_within_a_turn_is_refused(project: Path) -> None:
    with pytest.raises(RecipeError, match="'solved' is known only at its end"):
        play(project, {"coder": [WRONG]}, "coding-repair", "team.feedback=[solved]")


def test_endless_feedback_requests_are_refused(project: Path) -> None:
    (project / "polls.py").write_text(
        "async def polls(turn):\n    await turn.together()\n    while await turn.feedback():\n"
        "        pass\n"
    )
    with pytest.raises(RecipeError, match="asks for feedback more than 1000 times in one turn"):
        play(project, {"coder": [RIGHT]}, "coding-repair", "team.protocol=polls.py:polls")
