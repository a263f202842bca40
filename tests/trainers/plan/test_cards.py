"""`--dry-run --card` for a GPU that is not in this machine."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import Recipe
from collab.recipe.model import VLLMSpec
from collab.trainers import Plan, make_plan
from collab.trainers.training.plan import plan as plan_module
from collab.trainers.training.plan.cards import CARDS, Card, find_card
from collab.trainers.training.plan.memory import count_memory
from collab.trainers.training.plan.plan import with_sleeping_engines


def plan_on(tiny: Path, folder: Path, on: Card, ranks: int = 1, **options: object) -> Plan:
    return make_plan(make_game(tiny, folder, **options), on, ranks)


def test_card_is_specified_by_name_or_memory() -> None:
    assert find_card("H100") is CARDS["h100"]
    assert find_card("24").memory == find_card("24GB").memory == CARDS["rtx4090"].memory
    for wrong in ("h10", "0", "-5", "nan"):
        with pytest.raises(RecipeError, match="specify its memory in GiB"):
            find_card(wrong)


def test_plan_is_for_the_card_not_this_machine(tiny_words: Path, tmp_path: Path) -> None:
    here = make_plan(make_game(tiny_words, tmp_path))
    there = plan_on(tiny_words, tmp_path, CARDS["h100"])
    assert here.on_card is None
    assert there.memory["prepacked"] == 0
    assert there.on_card is not None
    assert there.on_card.fits
    assert there.on_card.micro_batch_tokens == 32_768
    assert " s at " not in there.text()


def test_plan_reports_what_does_not_fit(tiny_words: Path, tmp_path: Path) -> None:
    small = Card("toy", 1000)
    assert "on toy: does not fit" in plan_on(tiny_words, tmp_path, small).text()


def with_vllm_sampler(game: Recipe, **options: Any) -> Recipe:
    """Training whose episodes vLLM samples on the same GPU."""
    model = VLLMSpec(name=game.model.name, **options)
    return game.model_copy(update={"model": model})


@pytest.mark.parametrize(
    ("on", "options", "sleeps"),
    [
        ("80", {}, False),
        ("1", {}, True),
        ("1", {"memory_share": 0.2}, False),
        ("1", {"kv_cache_gb": 0.1}, False),
        ("80", {"sleep": True}, True),
        ("1", {"sleep": False}, False),
        ("1", {"trainer_device": "cuda:1"}, False),
    ],
)
def test_vllm_sleeps_if_both_do_not_fit(
    game: Recipe, monkeypatch: pytest.MonkeyPatch, on: str, options: dict[str, Any], sleeps: bool
) -> None:
    recipe, gpu = with_vllm_sampler(game, **options), find_card(on)
    plan = make_plan(recipe, gpu)
    assert plan.sleeps == sleeps
    assert ("vLLM sleeps while the trainer learns" in plan.text()) == sleeps
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(plan_module, "local_card", lambda _: gpu)
    assert recipe.trainer is not None
    model = with_sleeping_engines(recipe, recipe.trainer, 1).model_of("a")
    assert isinstance(model, VLLMSpec)
    assert bool(model.sleep) == sleeps


def test_plan_counts_the_memory_of_vllm(game: Recipe) -> None:
    gpu = CARDS["h100"]
    awake = make_plan(with_vllm_sampler(game), gpu)
    assert awake.memory["vllm"] == gpu.memory // 2
    data = with_vllm_sampler(game).model_dump()
    data["team"]["agents"]["b"]["model"] = {**data["model"], "context": 64}
    assert make_plan(Recipe.model_validate(data), gpu).memory["vllm"] == gpu.memory // 2
    small = make_plan(with_vllm_sampler(game, memory_share=0.99), gpu)
    assert small.memory["activations"] == 0, "sampling with sleep does not overlap learning"
    assert small.memory["vllm"] == int(0.99 * gpu.memory)
    assert make_plan(game, gpu).memory["vllm"] == 0
    servers = with_vllm_sampler(game, servers=("http://gpu:8000",))
    assert make_plan(servers, gpu).memory["vllm"] == 0


def test_chosen_micro_batch_keeps_the_reserve(tiny_words: Path, tmp_path: Path) -> None:
    """The micro-batch leaves the reserve free even if the model fills the GPU."""
    from collab.trainers.training.plan.memory import Lengths

    recipe = make_game(tiny_words, tmp_path)
    model = {"name": "smollm2-135m", "device": "cpu"}
    recipe = Recipe.model_validate({**recipe.model_dump(), "model": model})
    assert recipe.trainer is not None
    lengths = {agent: [Lengths(500, 500, 4000, prompts=4000)] for agent in ("a", "b")}
    for gigabytes in (4, 8, 16, 24, 80):
        gpu = find_card(str(gigabytes))
        memory = gpu.memory
        found = count_memory(recipe, recipe.trainer, lengths, gpu)
        learning = found.memory["activations"]
        rest = sum(found.memory.values()) - learning - found.memory["reserve"]
        assert learning <= 0.86 * (memory - rest), gigabytes
