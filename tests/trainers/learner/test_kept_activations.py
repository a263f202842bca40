"""The plan counts the activations that layers keep for the backward pass on a GPU."""

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from support.naive.held import Held
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from collab.models.local.dimensions import Dimensions, dimensions_of
from collab.models.local.multi_lora import one_adapter
from collab.models.weights import quiet_transformers
from collab.records import Sampling
from collab.trainers.learner import logprobs
from collab.trainers.learner.device_sizes import kept_bytes, learning_bytes
from collab.trainers.learner.logprobs import response_logprobs, response_states
from collab.trainers.learner.policy import enable_checkpointing
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import PackedSequence, pack_samples
from collab.trainers.learner.samples import Sample

CPU = torch.device("cpu")
LAYERS = 4


class KeepsAsFlashAttentionDoes(torch.autograd.Function):
    """Keeps the same tensors as flash attention; the values are meaningless."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        read = query.clone()
        ctx.save_for_backward(query, key, value, read)
        return read

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, ...]:
        query, key, value, _ = ctx.saved_tensors
        return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)


class Counted(Held):
    """Skips matrix products: their values do not matter here, and they take most of the time."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if op is torch.ops.aten.mm.default:
            op = empty_product
        return super().__torch_dispatch__(op, types, args, kwargs)


def empty_product(left: Tensor, right: Tensor) -> Tensor:
    return left.new_zeros(left.shape[0], right.shape[1])


@pytest.fixture(autouse=True)
def fake_gpu_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(
        query: Tensor, key: Tensor, value: Tensor, *_: Any, enable_gqa: bool, **__: Any
    ) -> Any:
        return KeepsAsFlashAttentionDoes.apply(query, key, value)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(logprobs, "varlen_kernel", lambda *_: kernel)


def adapted_model(vocabulary: int, *, checkpointing: bool) -> Any:
    """A small Qwen2 model with one LoRA adapter, named `own`."""
    sizes = {"hidden_size": 256, "intermediate_size": 1472, "num_hidden_layers": LAYERS}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": vocabulary}
    config = Qwen2Config(**{**sizes, **heads})
    model = Qwen2ForCausalLM._from_config(config, dtype=torch.bfloat16).eval()
    with quiet_transformers():
        adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear"), "own")
    base = adapted.get_base_model()
    if checkpointing:
        enable_checkpointing(base)
        base.train()
    return base


def group_of(prompt: int, response: int) -> list[PackedSequence]:
    """Pack eight responses to one prompt into rows."""
    samples = [
        Sample("a", tuple(range(prompt + 1)), (n, *[5] * (response - 1)), (), Sampling(), 1.0, 1.0)
        for n in range(8)
    ]
    return pack_samples(samples, 10_000, shared=True)


def shape_of(base: Any) -> Dimensions:
    return dimensions_of(base.config, torch.bfloat16.itemsize)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("prompt", "response"), [(0, 64), (128, 16)])
def test_plan_counts_kept_activations(prompt: int, response: int, checkpointing: bool) -> None:
    base = adapted_model(512, checkpointing=checkpointing)
    with one_adapter(base, "own"), tree_attention(base), Counted(base.parameters()) as held:
        hidden = response_states(base, group_of(prompt, response), CPU)
    tokens = logprobs._padded_width(prompt + 1 + 8 * (response - 1))
    assert hidden.shape[0] == 8 * response
    angles = 2 * 2 * 64 * tokens  # position embeddings, shared by all layers
    activations = held.now - hidden.nbytes - angles
    planned = kept_bytes(shape_of(base), tokens, checkpointing=checkpointing)
    assert activations == pytest.approx(planned, rel=0.05)


@pytest.mark.parametrize(
    ("vocabulary", "checkpointing"), [(512, False), (512, True), (16_384, False)]
)
def test_plan_covers_a_micro_batch(vocabulary: int, checkpointing: bool) -> None:
    """The peak is at the logits for a large vocabulary, otherwise in a layer's backward pass, where
    a GPU also holds gathered keys."""
    base, rows = adapted_model(vocabulary, checkpointing=checkpointing), group_of(64, 64)
    with one_adapter(base, "own"), tree_attention(base), Counted(base.parameters()) as held:
        response_logprobs(base, rows, CPU, chunk=256).logprobs.sum().backward()
    tokens = logprobs._padded_width(65 + 8 * 63)
    shape = shape_of(base)
    gradients = sum(p.nbytes for p in base.parameters() if p.requires_grad)
    planned = learning_bytes(shape, tokens, 256, checkpointing=checkpointing) + gradients
    assert 0.8 * planned < held.most < 1.02 * planned
