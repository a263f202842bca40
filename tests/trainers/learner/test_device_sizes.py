"""Sizes of learner batches, by device, free memory and recipe."""

import asyncio
import os
from pathlib import Path

import pytest
import torch
from support.trainer_recipes import make_game

from collab.models.local.dimensions import Dimensions
from collab.models.out_of_memory import grow_segments
from collab.recipe import Recipe, TrainerSpec
from collab.trainers.learner.device_sizes import (
    GPU_MAX_TOKENS,
    GPU_MIN_TOKENS,
    DeviceSizes,
    device_sizes,
    forward_tokens,
    learning_bytes,
)
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.policy import open_policies

CPU, GPU = "cpu", "cuda"
QWEN_1B5 = Dimensions(28, 1536, 8960, 512, 151_936, 2)
QWEN_7B = Dimensions(28, 3584, 18_944, 1024, 152_064, 2)
GB = 10**9


def chosen(dimensions: Dimensions, free: float, **options: object) -> DeviceSizes:
    spec = TrainerSpec.model_validate({"steps": 1, **options})
    return device_sizes(spec, GPU, dimensions, int(free * GB))


def test_sizes_on_a_cpu_are_fixed() -> None:
    spec = TrainerSpec(steps=1)
    assert device_sizes(spec, CPU, QWEN_1B5, 0) == DeviceSizes(2048, 96, False)
    assert forward_tokens(spec, CPU) == 2048


def test_sizes_on_a_gpu_follow_its_free_memory() -> None:
    found = chosen(QWEN_1B5, 82)
    assert 16_384 <= found.micro_batch_tokens <= 32_768
    assert (found.head_chunk_tokens, found.gradient_checkpointing) == (1024, False)
    taken = learning_bytes(QWEN_1B5, found.micro_batch_tokens, 1024, checkpointing=False)
    assert 0.8 * 82 * GB < taken < 0.85 * 82 * GB


def test_checkpointing_is_enabled_if_few_tokens_fit() -> None:
    small, large = chosen(QWEN_7B, 10), chosen(QWEN_7B, 65)
    assert (small.gradient_checkpointing, large.gradient_checkpointing) == (True, False)
    assert small.micro_batch_tokens > 8192
    plain = chosen(QWEN_7B, 10, gradient_checkpointing=False)
    assert not plain.gradient_checkpointing
    assert plain.micro_batch_tokens < small.micro_batch_tokens


def test_sizes_stay_within_their_bounds() -> None:
    assert chosen(QWEN_7B, 0).micro_batch_tokens == GPU_MIN_TOKENS
    assert chosen(QWEN_1B5, 1000).micro_batch_tokens == GPU_MAX_TOKENS


def test_recipe_overrides_the_sizes() -> None:
    options = {"micro_batch_tokens": 777, "gradient_checkpointing": True}
    spec = TrainerSpec.model_validate({"steps": 1, **options})
    for device, chunk in ((CPU, 96), (GPU, 1024)):
        assert device_sizes(spec, device, QWEN_1B5, 80 * GB) == DeviceSizes(777, chunk, True)
        assert forward_tokens(spec, device) == 777


def test_requested_tokens_enable_checkpointing_if_needed() -> None:
    options = {"micro_batch_tokens": 16_384}
    assert chosen(QWEN_1B5, 30, **options).gradient_checkpointing
    assert not chosen(QWEN_1B5, 80, **options).gradient_checkpointing


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_learner_reserves_memory_for_the_optimizer_state(
    tiny_words: Path, tmp_path: Path, dtype: str
) -> None:
    recipe = make_game(tiny_words, tmp_path, policies="full")
    model = recipe.model.model_copy(update={"dtype": dtype})
    recipe = recipe.model_copy(update={"model": model})
    assert recipe.trainer is not None
    policies = open_policies(recipe, recipe.trainer)
    learner = Learner(policies, recipe.trainer, total_steps=1)
    for policy in policies:
        sizes = [p.numel() for p in policy.parameters.values()]
        narrow = 2 * max(sizes) if dtype == "bfloat16" else 0
        assert learner.optimizers[policy.name].unallocated_bytes == 3 * 4 * sum(sizes) + narrow
    asyncio.run(policies.aclose())


@pytest.mark.parametrize(
    ("before", "model", "after"),
    [
        ({}, {}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "x"}, {}, {"PYTORCH_CUDA_ALLOC_CONF": "x"}),
        ({"PYTORCH_ALLOC_CONF": "x"}, {}, {"PYTORCH_ALLOC_CONF": "x"}),
        ({}, {"engine": "vllm"}, {}),
    ],
)
def test_cuda_allocator_uses_expandable_segments_by_default(
    game: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    before: dict[str, str],
    model: dict[str, str],
    after: dict[str, str],
) -> None:
    data = {**game.model_dump(), "model": {"name": game.model.name, **model}}
    monkeypatch.setattr(os, "environ", dict(before))
    grow_segments(game)
    assert os.environ == before
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    grow_segments(Recipe.model_validate(data))
    assert os.environ == after
