"""Learning on a GPU: attention, no waiting for the device, and the planned memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from collab.records import Sampling
from collab.trainers.learner.batch_sizes import supports_prefix_tree
from collab.trainers.learner.logprobs import response_logprobs
from collab.trainers.learner.loss import token_loss
from collab.trainers.learner.passes import ResponseSums
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import pack_samples
from collab.trainers.learner.prefix_tree.varlen import (
    Heads,
    kernel_difference,
    torch_kernel,
    varlen_kernel,
)
from collab.trainers.learner.samples import Sample

pytestmark = pytest.mark.gpu


def model_of(device: torch.device, **options: Any) -> Any:
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 4}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32_000}
    torch.manual_seed(0)
    config = Qwen2Config(**{**sizes, **heads, **options})
    with torch.device(device):
        return Qwen2ForCausalLM._from_config(config, dtype=torch.bfloat16).eval()


def group(prompt: int, response: int, **options: Any) -> list[Sample]:
    tokens, logprobs, sampling = tuple(range(prompt)), (0.0,) * response, Sampling(**options)
    return [
        Sample("a", tokens, (n, *range(1, response)), logprobs, sampling, weight=1.0, scale=1e-3)
        for n in range(8)
    ]


@pytest.mark.parametrize("heads", [Heads(8, 2, 64), Heads(12, 2, 128), Heads(4, 4, 80)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_varlen_matches_masks(device: torch.device, heads: Heads, dtype: torch.dtype) -> None:
    if torch.cuda.get_device_capability(device) < (8, 0):
        pytest.skip("flash attention needs compute capability 8.0 or later")
    assert kernel_difference(torch_kernel(), device, dtype, heads) < 0.02


def test_model_trains_alike_with_masks_and_varlen(device: torch.device) -> None:
    model = model_of(device)
    if varlen_kernel(model, device, "auto") is None:
        pytest.skip("this GPU and torch have no variable-length attention")
    assert supports_prefix_tree(model, device)
    rows = pack_samples(group(300, 100), 10_000, shared=True)
    found = []
    for how in ("mask", "varlen"):
        logprobs = response_logprobs(model, rows, device, attention=how).logprobs
        with tree_attention(model):
            gradients = torch.autograd.grad(logprobs.sum(), list(model.parameters()))
        found.append(torch.cat([logprobs.detach(), *(g.flatten().float() for g in gradients)]))
    exact, ours = found
    assert float((ours - exact).norm() / exact.norm()) < 0.05


@contextmanager
def refusing_to_wait() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    "way", [{}, {"temperature": 0.7}, {"top_p": 0.9}, {"top_k": 20, "top_p": 0.95}]
)
@pytest.mark.parametrize("shared", [False, True])
def test_host_syncs_only_for_the_metrics(
    device: torch.device, way: dict[str, Any], shared: bool
) -> None:
    from collab.recipe import TrainerSpec

    model, spec = model_of(device), TrainerSpec(steps=1)
    rows = pack_samples(group(64, 32, **way), 10_000, shared=shared)
    learned = [sample for row in rows for sample in row.samples]

    def work() -> ResponseSums:
        found = response_logprobs(model, rows, device)
        loss = token_loss(found.logprobs, learned, spec)
        sums = ResponseSums(learned, loss, found.logprobs.detach(), found.outside_support)
        with tree_attention(model):
            loss.total.backward()
        return sums

    work().read()  # one-time loading and probing
    with refusing_to_wait():
        sums = work()
    sums.read()


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_plan_is_within_a_tenth_of_the_peak(
    device: torch.device, checkpointing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from gpu_parts.learning import Load, measure
    from gpu_parts.shapes import opened

    with opened("0.5B", device) as engine:
        found = measure(engine, Load(2, 512, 256), 1, gradient_checkpointing=checkpointing)
    assert found["planned_bytes"] == pytest.approx(found["peak_bytes"], rel=0.1)
