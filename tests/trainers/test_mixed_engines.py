"""One team with three engines: a trained local model, a server's model, and Claude."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import claude_server, openai_server
from support.claude_server import ClaudeServer
from support.openai_server import OpenAIServer, usage_of
from support.service import status
from support.trainer_recipes import make_game

from collab.recipe import Recipe
from collab.records import read_episodes
from collab.trainers import TrainingRun

STEPS, KEY = 2, "sk-secret-0123456789"
SAYS = {"b": "a word", "claude": "left again"}


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OpenAIServer, ClaudeServer]]:
    """A server and Claude; both fail the first request."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setattr("collab.models.hosted.engine.FIRST_WAIT", 0.01)
    busy = status(503, message=f"busy {KEY}")
    server = OpenAIServer(busy, openai_server.answer(SAYS["b"], usage=usage_of(9, 2)))
    claude = ClaudeServer(busy, claude_server.answer(SAYS["claude"]))
    with server, claude:
        yield server, claude


@pytest.fixture
def team(hosts: tuple[OpenAIServer, ClaudeServer], tiny_words: Path, tmp_path: Path) -> Recipe:
    """Agent `a` is local and trained, `b` runs on a server, `claude` is Claude; each sees the
    others."""
    server, claude = hosts
    options = {"steps": STEPS, "checkpoint_every": 1, "keep_checkpoints": 9}
    data: dict[str, Any] = make_game(tiny_words, tmp_path, **options).model_dump()
    data["team"]["protocol"] = "discussion"
    data["team"]["agents"]["b"] |= {"trainable": False, "model": f"openai:{server.base_url}#qwen"}
    data["team"]["agents"]["claude"] = {
        "trainable": False,
        "model": {"engine": "anthropic", "name": "claude-test", "base_url": claude.url},
        "prompt": "{{ task.text }}",
    }
    return Recipe.model_validate(data)


def test_only_the_trainable_agent_is_trained(
    team: Recipe, tmp_path: Path, hosts: tuple[OpenAIServer, ClaudeServer]
) -> None:
    run = tmp_path / "run"
    asyncio.run(TrainingRun(team, run).run())
    checkpoints = run / "checkpoints"
    first, last = (
        {path.parent.name: path.read_bytes() for path in folder.glob("policies/*/*.safetensors")}
        for folder in (checkpoints / "step-000000", checkpoints / f"step-{STEPS:06}")
    )
    assert set(first) == {"a"}
    assert first["a"] != last["a"]
    episodes = list(read_episodes(run))
    assert episodes
    assert all(episode.failure is None for episode in episodes)
    assert all(len(server.bodies) > len(episodes) for server in hosts)
    for path in run.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
