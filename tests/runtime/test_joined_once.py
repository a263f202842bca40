"""The scored text is the recorded one, even if a join differs on every call."""

import asyncio
from pathlib import Path

import pytest
from support.recipes import recipe_from

from collab.records import Problem
from collab.runtime.session import Session

RECIPE = """\
model: echo
team:
  {name: pair, turns: 2, join: "mine.py:counting", feedback: ["mine.py:told"],
   agents: {a: {prompt: a}, b: {prompt: b}}}
task:
  {name: rows, kind: text, source: {path: rows.jsonl},
   reward: {parts: {quotes: {use: "mine.py:quotes"}}}}
"""
MINE = """\
calls = iter(range(100))
def counting(artifacts, problem):
    return f"{next(calls)}: {' '.join(artifacts.values())}"
def quotes(context):
    return 1.0, context.joint.text
def told(outcome):
    return {agent: outcome.joint.text for agent in outcome.agents}
"""


def open_session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    (folder / "mine.py").write_text(MINE)
    (folder / "rows.jsonl").write_text('{"task_id": "0", "prompt": "Write."}\n')
    monkeypatch.chdir(folder)
    return Session(recipe_from(RECIPE))


PROBLEM = Problem(address="rows/0", public={"prompt": "Write."})


def test_recorded_joint_text_is_the_one_scored_and_fed_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        async with open_session(tmp_path, monkeypatch) as session:
            [episode] = await session.rollout([PROBLEM])
            assert episode.failure is None
            for number, turn in enumerate(episode.turns):
                assert turn.joint.startswith(f"{number}: "), "joined once per turn"
                assert turn.score is not None
                assert turn.score.parts[0].reason == turn.joint
            feedback = episode.turns[0].feedback["a"][0].text
            assert feedback == episode.turns[0].joint

    asyncio.run(play())


def test_combination_is_joined_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crossed() -> str:
        async with open_session(tmp_path, monkeypatch) as session:
            score = await session.score(PROBLEM, {"b": "two", "a": "one"})
            return score.parts[0].reason

    assert asyncio.run(crossed()) == "0: one two"
