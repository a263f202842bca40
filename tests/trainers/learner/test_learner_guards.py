"""A learner changes only its parameters and stops when its numbers cannot be right."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from support.gradients import on_policy_samples
from support.shares import one_in
from support.trainer_recipes import make_game

from collab.errors import TrainingError
from collab.models.out_of_memory import is_out_of_memory
from collab.records import Sampling
from collab.trainers import TrainingRun
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.lora import add_adapter
from collab.trainers.learner.loss import TokenLoss
from collab.trainers.learner.policy import Policies, Policy, open_policies
from collab.trainers.learner.prefix_tree.packing import PackedSequence, padded_tokens
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.update import OutOfMemory, explain_memory
from collab.trainers.training.check import check_recipe


def test_only_the_agents_own_adapter_changes(learner: Learner) -> None:
    before = tensors(learner.policies)
    learner.learn(on_policy_samples(learner.policies, "a"), 0, Event())
    after = tensors(learner.policies)
    changed = {name.split("/")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"a"}


def tensors(policies: Policies) -> dict[str, torch.Tensor]:
    found = {f"{p.name}/{k}": v.detach().clone() for p in policies for k, v in p.parameters.items()}
    module = policies.by_name["a"].engine.module
    base = {k: v for k, v in module.named_parameters() if "lora_" not in k}
    return {**found, **{f"base/{k}": v.detach().clone() for k, v in base.items()}}


def test_responses_without_weight_are_not_computed(learner: Learner) -> None:
    update = learner.learn(on_policy_samples(learner.policies, weight=0.0), 0, Event())
    assert update.computed_tokens == 0
    assert update.losses == {}


@pytest.mark.parametrize("policies", one_in(2, ["adapters", "full"]))
def test_gradient_checkpointing_raises_no_warning(
    tiny_words: Path, tmp_path: Path, policies: str
) -> None:
    """Warnings are errors in tests; the first sampling checks the attention type."""
    recipe = make_game(
        tiny_words, tmp_path, policies=policies, gradient_checkpointing=True, steps=1
    )
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())


def test_gradients_that_cancel_out_do_not_stop_the_run(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, weight_decay=0.0)
    policies = open_policies(recipe, spec := check_recipe(recipe))
    samples = [s for s in on_policy_samples(policies, weight=1.0) if s.agent == "a"]
    learner = Learner(policies, spec, total_steps=1)
    update = learner.learn([*samples, *(replace(s, weight=-1.0) for s in samples)], 0, Event())
    assert update.gradient_norms == {"a": 0.0}
    asyncio.run(policies.aclose())


def test_an_optimizer_of_stale_parameters_stops_the_run(learner: Learner) -> None:
    policy = learner.policies.by_name["a"]
    with pytest.warns(UserWarning, match="Adapter a was active"):
        policy.engine.module.delete_adapter("a")
    add_adapter(policy.engine, "a", learner.spec.lora, seed=1, start=None)
    with pytest.raises(TrainingError, match="policy 'a' did not change in its first step"):
        learner.learn(on_policy_samples(learner.policies, "a"), 0, Event())


def test_sampler_that_differs_from_the_trainer_stops_the_run(learner: Learner) -> None:
    [sample] = on_policy_samples(learner.policies, "b")
    off = Sample("b", sample.prompt_ids, sample.token_ids, (-0.1, -0.1), Sampling(), 1.0, 0.5)
    with pytest.raises(TrainingError, match=r"agent 'b'.*more than trainer.mismatch_tolerance 0.1"):
        learner.learn([off], 0, Event())


def test_nan_loss_stops_the_run(learner: Learner) -> None:
    samples = on_policy_samples(learner.policies, "a")
    for parameter in learner.policies.by_name["a"].parameters.values():
        parameter.data.fill_(float("nan"))
    with pytest.raises(TrainingError, match="the loss of policy 'a' is nan"):
        learner.learn(samples, 0, Event())


def test_slow_attention_is_warned_about_only_in_the_first_step(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "mask, not varlen: it needs a GPU, but the model is on cpu"
    assert learner.about() == {"attention": {"a": reason, "b": reason}}
    monkeypatch.setattr("collab.trainers.learner.learner.attention_warnings", lambda *_: ["slow"])
    samples = on_policy_samples(learner.policies, "a")
    assert learner.learn(samples, 0, Event()).warnings == ["slow"]
    samples = on_policy_samples(learner.policies, "a")
    assert learner.learn(samples, 1, Event()).warnings == []


def test_out_of_memory_error_names_the_settings(learner: Learner) -> None:
    policy = learner.policies.by_name["a"]
    with pytest.raises(OutOfMemory, match=r"lower trainer.micro_batch_tokens, now 2048"):  # noqa: SIM117
        with explain_memory(lambda: learner._sizes.of(policy), policy.name):
            torch.empty(1 << 60)


class Scarce:
    """A device that runs out of memory above `holds` tokens per pass; records all attempts."""

    def __init__(self, learner: Learner, monkeypatch: pytest.MonkeyPatch, holds: int) -> None:
        self.tried: list[int] = []
        passes = learner._passes
        scored, backward = passes.scored, passes.backward

        def watched(policy: Policy, model: Any, batch: Sequence[PackedSequence]) -> Any:
            self.tried.append(padded_tokens(batch))
            return scored(policy, model, batch)

        def fails(loss: TokenLoss) -> None:
            backward(loss)  # the gradients exist before the error
            if self.tried[-1] > holds:
                raise torch.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr(passes, "scored", watched)
        monkeypatch.setattr(passes, "backward", fails)


def several_samples() -> list[Sample]:
    """Responses of one agent to several prompts, with different weights."""
    return [
        Sample("a", (1, 2, 3, *range(n)), (4, 5), (), Sampling(), weight=0.5 + n, scale=0.5)
        for n in range(1, 9)
    ]


@pytest.mark.parametrize(
    "message",
    [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        "CUDA error: out of memory",
        "CUDA driver error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_out_of_memory_is_recognized_in_every_form(message: str) -> None:
    assert is_out_of_memory(RuntimeError(message))
    assert not is_out_of_memory(RuntimeError("CUDA error: an illegal memory access"))


@pytest.mark.parametrize("kl_coef", [0.0, 0.1])
def test_out_of_memory_falls_back_to_smaller_micro_batches(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kl_coef: float
) -> None:
    found, warnings, tried, tokens = [], [], [], 32
    for _ in range(2):
        recipe = make_game(
            tiny_words,
            tmp_path,
            micro_batch_tokens=tokens,
            kl_coef=kl_coef,
            inner_epochs=2,
            clip_ratio=0.2,
        )
        spec = check_recipe(recipe)
        policies = open_policies(recipe, spec)
        learner = Learner(policies, spec, total_steps=4)
        scarce = Scarce(learner, monkeypatch, holds=12)
        for step in (0, 1):
            update = learner.learn(several_samples(), step, Event())
            found.append((update.losses, update.gradient_norms, update.sums, tensors(policies)))
            warnings.append(update.warnings)
        tried.append(scarce.tried)
        tokens = learner._sizes.of(policies.by_name["a"]).micro_batch_tokens
        asyncio.run(policies.aclose())
    for ours, exact in zip(found[:2], found[2:], strict=True):
        assert ours[:3] == exact[:3]
        for name, tensor in exact[3].items():
            torch.testing.assert_close(ours[3][name], tensor, rtol=0, atol=0)
    assert max(tried[0]) > 12 >= max(tried[1])
    [warning] = warnings[0]
    assert f"in micro-batches of 32 tokens; collab continues with {tokens}." in warning
    assert warnings[1:] == [[], [], []]


def test_response_that_exceeds_memory_alone_ends_the_run(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    scarce = Scarce(learner, monkeypatch, holds=1)
    with pytest.raises(OutOfMemory, match=r"learning with policy 'a'; lower"):
        learner.learn(several_samples(), 0, Event())
    longest = several_samples()[-1]
    assert scarce.tried[-1] <= len(longest.prompt_ids + longest.token_ids)
