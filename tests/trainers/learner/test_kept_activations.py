"""What layers keep for the backward pass is what the plan counts, here as a GPU would keep it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from collab.models.local.multi_lora import one_adapter
from collab.models.weights import quiet_transformers
from collab.trainers.learner import logprobs
from collab.trainers.learner.logprobs import states
from collab.trainers.learner.memory import activation_bytes, dimensions_of
from collab.trainers.learner.policy import _enable_checkpointing as enable_checkpointing
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import packed_sequences
from collab.trainers.learner.samples import Sample

CPU = torch.device("cpu")
LAYERS = 4


class KeepsAsFlashAttentionDoes(torch.autograd.Function):
    """Queries, keys, values and what was read; the numbers mean nothing."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        read = query.clone()
        ctx.save_for_backward(query, key, value, read)
        return read

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        return upstream, None, None


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("prompt", "response"), [(0, 64), (64, 32), (128, 16)])
def test_the_plan_counts_what_layers_keep(
    prompt: int, response: int, checkpointing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernel(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> Any:
        return KeepsAsFlashAttentionDoes.apply(query, key, value)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(logprobs, "varlen_kernel", lambda *_: kernel)
    sizes = {"hidden_size": 256, "intermediate_size": 1472, "num_hidden_layers": LAYERS}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 512}
    config = Qwen2Config(**{**sizes, **heads})
    model = Qwen2ForCausalLM._from_config(config, dtype=torch.bfloat16).eval()
    with quiet_transformers():
        adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear"), "own")
    base = adapted.get_base_model()
    if checkpointing:
        enable_checkpointing(base)
        base.train()
    own = {p.untyped_storage().data_ptr() for p in adapted.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in own:
            kept[place] = tensor
        return tensor

    samples = [
        Sample("a", tuple(range(prompt + 1)), (n, *[5] * (response - 1)), (), 1.0, 1.0, 1.0)
        for n in range(8)
    ]
    rows = packed_sequences(samples, 10_000, shared=True)
    with (
        one_adapter(base, "own"),
        tree_attention(base),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        hidden = states(base, rows, CPU)
    tokens = logprobs._padded(prompt + 1 + 8 * (response - 1))
    assert hidden.shape[0] == 8 * response
    found = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    shape = dimensions_of(base.config, torch.bfloat16, torch.device("cuda"))
    planned = activation_bytes(shape, tokens, checkpointing=checkpointing)
    without = activation_bytes(replace(shape, layers=0), tokens, checkpointing=checkpointing)
    norm = 4 * 256 * tokens  # behind the layers; the rest of it is one layer's own backward pass
    assert found == pytest.approx(planned - without + norm, rel=0.05)
