"""Recipes whose base ranks are to share out: what is refused before any load, and the plan."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.trainer_recipes import make_game

from collab.errors import ModelError, RecipeError
from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.models.weights import LoadedModel, load_model
from collab.recipe import Recipe
from collab.recipe.model import TransformersModel, VLLMModel
from collab.records import Sampling
from collab.trainers import make_plan
from collab.trainers.training.check import check_recipe
from collab.trainers.training.plan.cards import CARDS

SHARD: dict[str, Any] = {"ranks": {"shard": True}}


def sampled_by_vllm(model: Path, folder: Path, **trainer: Any) -> Recipe:
    recipe = make_game(model, folder, **{**SHARD, **trainer})
    spec = VLLMModel(name=str(model), servers=("http://127.0.0.1:9",), dtype="float32")
    return recipe.model_copy(update={"model": spec})


def test_transformers_does_not_sample_from_it(tiny_words: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"'a' samples with transformers.*set model.engine to"):
        check_recipe(make_game(tiny_words, tmp_path, **SHARD))
    check_recipe(sampled_by_vllm(tiny_words, tmp_path))


def test_neither_does_a_frozen_agent_on_the_same_base(tiny_words: Path, tmp_path: Path) -> None:
    recipe = sampled_by_vllm(tiny_words, tmp_path)
    same = TransformersModel(name=str(tiny_words), dtype="float32")
    changes = {"b": {"trainable": False, "model": same}}
    with pytest.raises(RecipeError, match="agent 'b' samples with transformers"):
        check_recipe(recipe.with_agents(changes))
    changes["b"]["model"] = same.model_copy(update={"dtype": "bfloat16"})  # another one in memory
    check_recipe(recipe.with_agents(changes))


def test_whole_models_are_not_shared_out(tiny_words: Path, tmp_path: Path) -> None:
    recipe = sampled_by_vllm(tiny_words, tmp_path)
    assert recipe.trainer is not None
    trainer = recipe.trainer.model_copy(update={"policies": "full"})
    with pytest.raises(RecipeError, match="'full'"):
        check_recipe(recipe.model_copy(update={"trainer": trainer}))


def test_weights_in_bits_are_not_shared_out(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, compile_layers=True, **SHARD)
    bits = TransformersModel(name=str(tiny_words), device="cpu", load_in="4bit")
    with pytest.raises(RecipeError, match=r"set trainer.ranks.shard to false, or leave out load"):
        check_recipe(recipe.model_copy(update={"model": bits}))


def test_an_engine_that_holds_a_part_does_not_wait(tiny_words: Path) -> None:
    def load(folder: Path, spec: TransformersModel) -> LoadedModel:
        loaded = load_model(folder, spec)
        loaded.sharded = True
        return loaded

    engine = TransformersEngine(TransformersModel(name=str(tiny_words), device="cpu"))
    engine.load_by(load)
    call = Call(task="t/0", sample=0, turn=0, round=0, agent="a")
    request = Request(call=call, prompt_ids=(1, 2), sampling=Sampling(max_new_tokens=2))
    with pytest.raises(ModelError, match=r"is sharded over the ranks.*set model.engine=vllm"):
        asyncio.run(engine.generate([request]))
    asyncio.run(engine.aclose())


def test_the_plan_counts_a_part_of_the_layers(tiny_words: Path, tmp_path: Path) -> None:
    recipe = sampled_by_vllm(tiny_words, tmp_path)
    one, four = (make_plan(recipe, CARDS["h100"], ranks).memory["weights"] for ranks in (1, 4))
    layers = 2 * 4 * (32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 64 + 2 * 32)
    # Of two layers, both of which are whole at times.
    assert four == one + layers // 4
    eight = make_plan(recipe, CARDS["h100"], 8).memory["weights"]
    assert four - eight == layers // 4 - layers // 8
