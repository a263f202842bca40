"""Training works for models of other types than Llama, and in a team with three engines."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support import claude_server, openai_server
from support.claude_server import ClaudeServer
from support.openai_server import OpenAIServer, usage_of
from support.service import status
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, make_game
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from collab.recipe import Recipe
from collab.records import read_episodes
from collab.trainers import TrainingRun

HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "head_dim": 8}
LAYERS = ["conv", "full_attention"]


@pytest.mark.parametrize(
    ("model_type", "options"),
    [
        ("opt", {**HEADS, "ffn_dim": 32, "word_embed_proj_dim": 16}),  # layers join rows and time
        ("bloom", {"n_layer": 2, "n_head": 2}),  # attention_dropout is a module
        ("qwen3_moe", {**HEADS, **EXPERTS}),
        (
            "lfm2",
            {**HEADS, "intermediate_size": 32, "layer_types": LAYERS},
        ),  # states of convolutions
    ],
)
def test_model_of_another_type_is_trained(
    model_type: str, options: dict[str, Any], tmp_path: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(save_tiny(tmp_path / "words", WORDS))
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        model_type, vocab_size=len(tokenizer), hidden_size=16, max_position_embeddings=64, **options
    )
    config.eos_token_id = tokenizer.eos_token_id
    model = tmp_path / model_type
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(model)
    tokenizer.save_pretrained(model)
    summary = asyncio.run(TrainingRun(make_game(model, tmp_path, steps=2), tmp_path / "run").run())
    assert summary["steps"] == 2
    assert summary["unlearned"] == 0


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
