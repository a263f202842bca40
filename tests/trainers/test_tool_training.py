"""A team with a tool learns only from tokens that its model sampled."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from support.tiny_words import CHAT, TOOL_CHAT, save_tiny
from support.trainer_recipes import make_game

from collab.recipe import Recipe
from collab.records import read_episodes
from collab.runs.about import read_about
from collab.trainers import TrainingRun

CALL = '<tool_call>{"name":"say"}</tool_call>'
WORDS = ["left", "right", "say", "a", CALL, "tool"]
TOOL = "def say() -> str:\n    return 'left right'\n"


@pytest.mark.parametrize("chat", [CHAT, TOOL_CHAT], ids=["text", "template"])
def test_a_tool_round_is_one_more_decision(chat: str, here: Path) -> None:
    (here / "tools.py").write_text(TOOL)
    model = save_tiny(here / "model", WORDS, chat=chat)
    game = make_game(model, here, steps=2)
    data = game.model_dump(mode="python", exclude_none=True)
    data["team"]["agents"]["a"] |= {"tools": ["tools.py:say"], "harness": "tools"}
    asyncio.run(TrainingRun(Recipe.model_validate(data), Path("run")).run())
    expected = "template" if chat == TOOL_CHAT else "text"
    assert read_about(Path("run"))["tools"] == {"a": expected}
    episodes = [e for file in Path("run").rglob("episodes.jsonl") for e in read_episodes(file)]
    turns = [turn for episode in episodes for turn in episode.turns]
    rounds = [d for turn in turns for d in turn.decisions if d.step]
    assert rounds
    assert not [episode.failure for episode in episodes if episode.failure]
    assert all(d.agent == "a" and d.observation[0].content == "left right" for d in rounds)
    for turn in turns:
        actions = [d.action for d in turn.decisions if d.agent == "a"]
        for before, after in pairwise(actions):
            assert len(after.prompt_ids) > len(before.prompt_ids + before.token_ids)
            if chat == TOOL_CHAT and before.token_ids[0] == WORDS.index(CALL):
                written = before.prompt_ids + before.token_ids[:1]
                assert after.prompt_ids[: len(written)] == written, (
                    "the call's sampled tokens are kept"
                )
