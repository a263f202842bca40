"""Agents that act more than once per turn."""

import json
from pathlib import Path
from typing import Any

import pytest

import collab
from collab.errors import RecipeError
from collab.records import Episode

TWICE = """\
from collab.records import Message

async def think(move, *, times: int = 1):
    for _ in range(times):
        await move.generate()
        move.observe(Message(role="user", content="Now answer."))
    await move.generate()

async def silent(move):
    pass
"""


def play(project: Path, harness: str, answers: dict[str, list[Any]], **top: Any) -> Episode:
    (project / "think.py").write_text(TWICE)
    (project / "script.yaml").write_text(json.dumps(answers))
    settings = [f"agents.a.harness={harness}"]
    team = collab.load("pair", model="scripted:script.yaml", settings=settings, **top)
    return team.run("words/3").episode


def test_each_response_is_a_decision_and_the_last_one_the_answer(project: Path) -> None:
    harness = "{use: 'think.py:think', options: {times: 2}}"
    episode = play(project, harness, {"a": ["hm", "well", "Say w3."], "b": ["Say w3."]})
    decisions = episode.decisions("a")
    assert [(d.round, d.step, d.action.text) for d in decisions] == [
        (0, 0, "hm"),
        (0, 1, "well"),
        (0, 2, "Say w3."),
    ]
    assert [m.content for m in decisions[1].observation] == ["Now answer."]
    assert episode.turns[0].artifacts["a"] == "Say w3."
    assert episode.reward == 1.0


def test_first_batch_includes_all_agents_of_the_round(project: Path) -> None:
    episode = play(project, "'think.py:think'", {"a": ["x", "y"], "b": ["z"]})
    assert [(d.agent, d.step) for d in episode.turns[0].decisions] == [("a", 0), ("a", 1), ("b", 0)]


def test_a_slow_harness_keeps_the_order_of_the_agents(project: Path) -> None:
    (project / "slow.py").write_text(
        "import asyncio\n"
        "async def slow(move, *, seconds: float = 0.0):\n"
        "    await move.generate()\n"
        "    await asyncio.sleep(seconds)\n"
        "    await move.generate()\n"
    )
    (project / "script.yaml").write_text(json.dumps(["a0", "b0", "a1", "b1"]))
    settings = [
        "agents.a.harness={use: 'slow.py:slow', options: {seconds: 0.05}}",
        "agents.b.harness='slow.py:slow'",
    ]
    team = collab.load("pair", model="scripted:script.yaml", settings=settings)
    assert team.run("words/3").episode.turns[0].artifacts == {"a": "a1", "b": "b1"}


def test_a_failed_response_ends_the_episode(project: Path) -> None:
    episode = play(project, "'think.py:think'", {"a": [{"failure": "overloaded"}], "b": ["z"]})
    assert episode.failure is not None
    assert episode.failure.message == "overloaded"
    assert [d.action.text for d in episode.decisions("b")] == ["z"], "its tokens were paid for"


def test_a_harness_without_a_response_is_an_error(project: Path) -> None:
    episode = play(project, "'think.py:silent'", {"b": ["z"]})
    assert episode.failure is not None
    assert "ended without calling the model" in episode.failure.message


def test_an_unknown_harness_is_refused(project: Path) -> None:
    with pytest.raises(RecipeError, match="did you mean 'respond'"):
        play(project, "respnd", {})


def test_a_replay_finds_every_response(project: Path) -> None:
    (project / "think.py").write_text(TWICE)
    settings = ["agents.a.harness='think.py:think'"]
    first = collab.load("pair", model="echo", settings=settings).run("words/0-2", out="first")
    again = collab.load("pair", model="replay:first", settings=settings).run("words/0-2")
    assert [e.reward for e in first.episodes] == [e.reward for e in again.episodes]
    assert all(len(e.decisions("a")) == 2 for e in again.episodes)
