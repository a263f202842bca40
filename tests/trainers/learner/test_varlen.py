"""Attention over variable lengths matches masked attention, in float64 and for every kernel.

The GPU kernel is not available here; a formula replaces it behind the same plan.
"""

from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.naive.held import Held
from support.naive.varlen import varlen_by_hand, varlen_of_torch_2_11
from support.rows import CPU, logprobs_and_gradients, samples
from support.tiny_models import tiny
from torch import Tensor

from collab.errors import RecipeError, TrainingError
from collab.recipe import TrainerSpec
from collab.trainers.learner import logprobs
from collab.trainers.learner.device_sizes import check_device
from collab.trainers.learner.policy import enable_checkpointing
from collab.trainers.learner.prefix_tree import varlen
from collab.trainers.learner.prefix_tree.attention import Branches, TreeAttention
from collab.trainers.learner.prefix_tree.packing import PrefixTree, pack_samples
from collab.trainers.learner.prefix_tree.varlen import (
    Heads,
    VarlenAttention,
    attention_warnings,
    branch_plan,
    describe_attention,
    kernel_difference,
    varlen_kernel,
)

sequences = st.lists(st.integers(0, 2), min_size=1, max_size=9)
rows = st.lists(st.lists(sequences, min_size=1, max_size=5), min_size=1, max_size=3)


def trees_of(layout: list[list[list[int]]]) -> list[PrefixTree]:
    return [PrefixTree(row) for row in layout]


@given(rows, st.integers(0, 3), st.sampled_from([(4, 2), (2, 2), (3, 1)]))
def test_varlen_matches_masks_in_outputs_and_gradients(
    layout: list[list[list[int]]], padding: int, heads: tuple[int, int]
) -> None:
    trees = trees_of(layout)
    width = max(len(tree.tokens) for tree in trees) + padding
    torch.manual_seed(0)
    query_heads, key_heads = heads
    shapes = [(len(trees), n, width, 8) for n in (query_heads, key_heads, key_heads)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    real = torch.tensor([[n < len(tree.tokens) for n in range(width)] for tree in trees])
    weights = (
        torch.randn(len(trees), width, query_heads, 8, dtype=torch.float64) * real[..., None, None]
    )
    found = []
    plan = branch_plan(trees, width)
    kernels = (varlen_by_hand, varlen_of_torch_2_11)
    ways: list[Branches] = [VarlenAttention(plan, CPU, kernel) for kernel in kernels]
    for way in [TreeAttention(trees, width, CPU), *ways]:
        read = way.attend(*inputs, scaling=None)
        found.append(
            (read * real[..., None, None], *torch.autograd.grad((read * weights).sum(), inputs))
        )
    for exact, *others in zip(*found, strict=True):
        for ours in others:
            torch.testing.assert_close(ours, exact, rtol=0, atol=1e-13)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_varlen_trains_like_masks(checkpointing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("qwen2").double()
    if checkpointing:
        enable_checkpointing(model)
        model.train()
    packed = pack_samples(samples(), 1000, shared=True)
    by_mask = logprobs_and_gradients(model, packed)
    monkeypatch.setattr(logprobs, "varlen_kernel", lambda *_: varlen_by_hand)
    used: list[int] = []
    original = VarlenAttention.attend

    def watched(way: VarlenAttention, *arguments: Tensor, **options: Any) -> Tensor:
        used.append(1)
        return original(way, *arguments, **options)

    monkeypatch.setattr(VarlenAttention, "attend", watched)
    by_hand = logprobs_and_gradients(model, packed)
    assert used
    assert (by_hand - by_mask).norm() <= 1e-12 * by_mask.norm()


class Keeps(torch.autograd.Function):
    """Keeps keys and values from `first` on; the values are meaningless."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, first: int, saved: Any) -> Any:  # noqa: PLR0917
        ctx.save_for_backward(key[first:], value[first:])
        ctx.shape, ctx.saved_list = key.shape, saved
        return query.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Any, ...]:
        ctx.saved_list.extend(ctx.saved_tensors)
        return upstream, torch.zeros(ctx.shape), torch.zeros(ctx.shape), None, None


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("first", [0, 1])
def test_kernel_keeps_its_tensors_and_a_shared_prompt_only_once(
    first: int, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, branches = 200, 8
    (tree,) = trees_of([[[*range(prompt), prompt + n] for n in range(branches)]])
    plan = branch_plan([tree], len(tree.tokens))
    saved: list[Tensor] = []
    inputs = [torch.randn(1, n, len(tree.tokens), 8, requires_grad=True) for n in (4, 2, 2)]

    def kernel(query: Tensor, key: Tensor, value: Tensor, *_: Any, **options: Any) -> Any:
        assert ("enable_gqa" in options) == grouped
        return Keeps.apply(query, key, value, first, saved)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(varlen, "supports_head_groups", lambda _: grouped)
    with Held(inputs) as held:
        read = VarlenAttention(plan, CPU, kernel).attend(*inputs, scaling=None)
    times = 1 if grouped else 2
    gathered = 2 * len(plan.keys) * 2 * times * 8 * 4
    assert (held.now > gathered) == (first > 0)  # views of the inputs are kept
    read.sum().backward()
    for tensor, source in zip(saved, inputs[1:], strict=True):
        expected = source[0].transpose(0, 1)[plan.keys].repeat_interleave(times, dim=1)
        assert torch.equal(tensor, expected[first:])


def test_cpu_uses_masks() -> None:
    model = tiny("qwen2")
    assert varlen_kernel(model, CPU, "auto") is None
    assert varlen_kernel(model, CPU, "mask") is None
    with pytest.raises(TrainingError, match="needs a GPU, but the model is on cpu"):
        varlen_kernel(model, CPU, "varlen")


def test_gpu_with_masks_states_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    model, gpu = tiny("qwen2"), torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    reason = "the GPU has compute capability 7.5, and 8.0 is needed"
    assert describe_attention(model, gpu, "auto") == f"mask, not varlen: {reason}"
    [warning] = attention_warnings(model, gpu, "auto")
    assert reason in warning
    assert attention_warnings(model, gpu, "mask") == attention_warnings(model, CPU, "auto") == []
    monkeypatch.setattr(varlen, "_kernel_refusal", lambda *_: None)
    assert (
        describe_attention(model, gpu, "auto"),
        attention_warnings(model, gpu, "auto"),
    ) == (
        "varlen",
        [],
    )


def test_kernel_with_another_alignment_is_detected() -> None:
    at_the_start = partial(varlen_by_hand, at_end=False)
    for kernel in (varlen_by_hand, varlen_of_torch_2_11):
        assert kernel_difference(kernel, CPU, torch.float32, Heads(4, 2, 8)) < 1e-5
    assert kernel_difference(at_the_start, CPU, torch.float32, Heads(4, 2, 8)) > 0.1


def test_the_kernel_is_refused_without_a_gpu() -> None:
    spec = TrainerSpec(tree_attention="varlen")
    check_device(spec, "cuda")
    with pytest.raises(RecipeError, match="'varlen' needs a GPU, but the model is on cpu"):
        check_device(spec, "cpu")
