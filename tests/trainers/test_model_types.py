"""Training works for models of other types than Llama: with their layers, caches and dropout."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, make_game
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

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
