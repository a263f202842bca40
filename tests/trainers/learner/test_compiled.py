"""Layers that torch compiles, here by a backend that changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, make_game
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from collab.errors import RecipeError
from collab.models.local.layers import decoder_layers
from collab.models.weights import Load, LoadedModel, load_model
from collab.recipe.model import TransformersModel
from collab.trainers.learner import policy as policy_module
from collab.trainers.learner.logprobs import response_logprobs
from collab.trainers.learner.policy import (
    AdaptedLinear,
    Policies,
    one_adapter_as_modules,
    open_policies,
)
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import packed_sequences
from collab.trainers.learner.samples import Sample
from collab.trainers.ranks.sharding import share_out

CPU = torch.device("cpu")


def group(prompt: int, response: int) -> list[Sample]:
    def sample(first: int) -> Sample:
        tokens = (first, *(2 for _ in range(response)))
        zeros = (0.0,) * len(tokens)
        return Sample("a", (1,) * prompt, tokens, zeros, 1.0, weight=1.0, scale=1.0)

    return [sample(first) for first in (3, 4, 5)]


def learned(policies: Policies, name: str, samples: list[Sample], *, compiled: bool) -> Tensor:
    policy = policies.by_name[name]
    rows = packed_sequences(samples, 1000, shared=True)
    with policy.training(compiled=compiled) as model, tree_attention(model):
        logprobs = response_logprobs(model, rows, CPU).logprobs
        gradients = torch.autograd.grad(logprobs.sum(), list(policy.parameters.values()))
    return torch.cat([logprobs.detach(), *(g.flatten() for g in gradients)])


@pytest.mark.parametrize("policies", [{}], indirect=True)
def test_an_adapter_by_modules_is_the_adapter(policies: Policies) -> None:
    base = policies.by_name["a"].engine.module.get_base_model()
    before = [type(part) for part in base.modules()]
    samples = group(4, 3)
    rows = packed_sequences(samples, 1000, shared=True)
    with one_adapter_as_modules(base, "a"), torch.no_grad():
        assert any(isinstance(part, AdaptedLinear) for part in base.modules())
        ours = response_logprobs(base, rows, CPU).logprobs
    assert [type(part) for part in base.modules()] == before
    with policies.by_name["a"].training() as model, torch.no_grad():
        torch.testing.assert_close(ours, response_logprobs(model, rows, CPU).logprobs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # torch's own
@pytest.mark.parametrize("policies", [{}], indirect=True)
def test_layers_are_compiled_once_for_policies_steps_and_lengths(
    policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._dynamo.testing import CompileCounter

    counter: Any = CompileCounter()
    monkeypatch.setattr(policy_module, "BACKEND", counter)
    counts = []
    for name, *sizes in (("a", 4, 3), ("a", 9, 5), ("b", 4, 3), ("a", 20, 6)):
        ours = learned(policies, name, group(*sizes), compiled=True)
        plain = learned(policies, name, group(*sizes), compiled=False)
        assert (ours - plain).norm() <= 1e-9 * plain.norm()
        counts.append(counter.frame_count)
    assert counts[0] > 0
    assert counts[1] == counts[-1]


@contextmanager
def shared_out() -> Iterator[Load]:
    """How a base is loaded whose layers are shared out, over a world of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = DeviceMesh.from_group(dist.group.WORLD, "cpu")

    def load(folder: Path, spec: TransformersModel) -> LoadedModel:
        loaded = load_model(folder, spec)
        share_out(loaded.module, list(decoder_layers(loaded.module)), mesh, CPU)
        return loaded

    try:
        yield load
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # torch's own
@pytest.mark.parametrize("held", ["shared out", "in 4 bits"])
def test_compiled_layers_of_a_base_that_is_held_otherwise_give_the_same(
    held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU; what refuses a processor is not asked here."""
    monkeypatch.setattr(policy_module, "BACKEND", "eager")
    bits: Any = {}
    if held == "in 4 bits":
        pytest.importorskip("bitsandbytes")
        bits = {"load_in": "4bit"}
    wide = save_tiny(tmp_path / "wide", WORDS, hidden=64)
    recipe = make_game(wide, tmp_path)
    model = TransformersModel(name=str(wide), dtype="float32", device="cpu", **bits)
    recipe = recipe.model_copy(update={"model": model})
    assert recipe.trainer is not None
    with nullcontext() if bits else shared_out() as load:
        policies = open_policies(recipe, recipe.trainer, load=load)
        for name, *sizes in (("a", 4, 3), ("a", 9, 5), ("b", 4, 3)):
            ours = learned(policies, name, group(*sizes), compiled=True)
            plain = learned(policies, name, group(*sizes), compiled=False)
            assert (ours - plain).norm() <= 1e-6 * plain.norm()
        asyncio.run(policies.aclose())


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"compile_layers": True}, "trainer.compile_layers needs a GPU"),
        ({"tree_attention": "varlen"}, "trainer.tree_attention 'varlen' needs a GPU"),
    ],
)
def test_what_a_gpu_alone_has_is_refused_elsewhere(
    tiny_words: Path, tmp_path: Path, option: dict[str, Any], told: str
) -> None:
    recipe = make_game(tiny_words, tmp_path, **option)
    assert recipe.trainer is not None
    with pytest.raises(RecipeError, match=told):
        open_policies(recipe, recipe.trainer)


def test_attention_is_computed_as_the_model_says(tiny_words: Path) -> None:
    from collab.models.local.engine import TransformersEngine

    for said, held in ((None, "sdpa"), ("eager", "eager")):
        spec = TransformersModel(name=str(tiny_words), attn_implementation=said)
        engine = TransformersEngine(spec)
        assert engine.module.config._attn_implementation == held
        asyncio.run(engine.aclose())
