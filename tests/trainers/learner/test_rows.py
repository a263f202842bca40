"""Responses with shared prefixes learn the same as in separate rows."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from support.rows import CPU, logprobs_and_gradients, sample, samples
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from collab.models import store
from collab.models.local.dimensions import has_full_attention
from collab.trainers.learner.batch_sizes import supports_prefix_tree
from collab.trainers.learner.logprobs import response_logprobs
from collab.trainers.learner.policy import enable_checkpointing
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import PackedSequence, PrefixTree, pack_samples


def tiny(model_type: str, **options: Any) -> Any:
    sizes = {"vocab_size": 16, "hidden_size": 32, "intermediate_size": 64}
    heads = {"num_attention_heads": 4, "max_position_embeddings": 64}
    names = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1, "initializer_range": 0.2}
    options = {"num_key_value_heads": 2, "num_hidden_layers": 2, **options}
    config = AutoConfig.for_model(model_type, **sizes, **heads, **names, **options)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


def test_shared_prefix_is_stored_once() -> None:
    assert PrefixTree([(1, 2, 3), (1, 2)]).is_chain
    tree = PrefixTree([(1, 2, 3), (1, 2, 4), (1, 2)])
    assert not tree.is_chain
    assert (tree.tokens, tree.depths) == ([1, 2, 3, 4], [0, 1, 2, 2])
    assert tree.paths == [[0, 1, 2], [0, 1, 3], [0, 1]]
    assert tree.branches == [(0, [0, 1, 2]), (2, [0, 1, 3])]


def test_rows_pack_responses_that_share_a_prefix_and_fit() -> None:
    prompt = tuple(range(100))
    group = [sample(prompt, (n,) * 51) for n in range(4)]
    apart = pack_samples(group, 10_000, shared=False)
    assert apart == [PackedSequence([s]) for s in group]
    assert [row.width for row in pack_samples(group, 10_000, shared=True)] == [300]
    assert [row.width for row in pack_samples(group, 200, shared=True)] == [200, 200]
    strangers = [sample((n, *prompt), (1, 2)) for n in range(3)]
    assert len(pack_samples(strangers, 10_000, shared=True)) == 3


@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("budget", [12, 1000])
def test_shared_rows_give_the_same_gradients(heads: int, checkpointing: bool, budget: int) -> None:
    model = tiny("llama", num_key_value_heads=heads).double()
    if checkpointing:
        enable_checkpointing(model)
        model.train()
    rows = pack_samples(samples(), budget, shared=True)
    assert len(rows) < len(samples())
    order = [s for row in rows for s in row.samples]
    together, apart = (
        logprobs_and_gradients(model, layout)
        for layout in (rows, [PackedSequence([s]) for s in order])
    )  # Llama always computes norms in float32
    assert (together - apart).norm() <= 1e-6 * apart.norm()


@pytest.mark.parametrize("std", [0, 20])
def test_shared_bfloat16_rows_give_accurate_gradients(std: float) -> None:
    """Qwen2.5's key biases push scores to hundreds, where bfloat16 resolves only whole numbers."""
    model = tiny("qwen2", use_sliding_window=False).to(torch.bfloat16)
    for layer in model.model.layers:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            projection.bias.data.normal_(std=std)
    together, apart = (gradients_of(model, shared=shared) for shared in (True, False))
    assert (together - apart).norm() <= 0.03 * apart.norm()


def gradients_of(model: Any, *, shared: bool) -> Tensor:
    rows = pack_samples(samples(), 1000, shared=shared)
    logprobs = response_logprobs(model, rows, CPU).logprobs
    with tree_attention(model):
        gradients = torch.autograd.grad(logprobs.sum(), list(model.parameters()))
    return torch.cat([g.flatten().float() for g in gradients])


def test_row_order_matches_the_sample_order() -> None:
    model = tiny("llama")
    rows = pack_samples(samples(), 1000, shared=True)
    with torch.no_grad():
        together = response_logprobs(model, rows, CPU).logprobs
        alone = [
            response_logprobs(model, [PackedSequence([s])], CPU).logprobs
            for row in rows
            for s in row.samples
        ]
    assert torch.allclose(together, torch.cat(alone), atol=1e-5)


@pytest.mark.parametrize(
    ("model_type", "options", "shares"),
    [
        ("llama", {}, True),
        ("llama", {"attn_implementation": "eager"}, False),
        ("qwen2", {}, True),
        ("qwen3", {"head_dim": 8}, True),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, True),
        ("mistral", {"sliding_window": 8}, False),
        ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}, False),
        ("gemma3_text", {"head_dim": 8, "sliding_window": 8}, False),
        ("mamba", {}, False),  # state carries over between rows
        ("bloom", {"n_layer": 2, "n_head": 4}, False),  # derives positions from the mask
    ],
)
def test_rows_are_shared_where_attention_allows_it(
    model_type: str, options: dict[str, Any], shares: bool
) -> None:
    model = tiny(model_type, **options)
    assert supports_prefix_tree(model, CPU) == shares


def test_flash_attention_is_left_alone() -> None:
    config = copy.deepcopy(tiny("llama").config)
    assert has_full_attention(config)
    config._attn_implementation = "flash_attention_2"
    assert not has_full_attention(config)


def test_probe_detects_a_model_that_drops_the_branches_argument(tiny_words: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_words).eval()
    assert supports_prefix_tree(model, CPU)
    forward = model.base_model.forward

    def deaf(**options: Any) -> Any:
        options.pop("branches", None)
        return forward(**options)

    model.base_model.forward = deaf
    assert not supports_prefix_tree(model, CPU)


def test_probe_detects_a_model_that_counts_positions_itself() -> None:
    model = tiny("gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=64)
    assert supports_prefix_tree(model, CPU)
    forward = model.base_model.forward
    model.base_model.forward = lambda **options: forward(**{**options, "position_ids": None})
    assert not supports_prefix_tree(model, CPU)


def test_probe_detects_one_layer_with_other_attention() -> None:
    model = tiny("llama", num_hidden_layers=4)
    assert supports_prefix_tree(model, CPU)
    model = tiny("llama", num_hidden_layers=4)
    other_config = copy.deepcopy(model.config)
    other_config._attn_implementation = "sdpa"
    model.model.layers[1].self_attn.config = other_config
    assert not supports_prefix_tree(model, CPU)


@pytest.mark.slow
def test_default_model_supports_shared_rows_in_bfloat16() -> None:
    folder = store.resolve("smollm2-135m")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    assert supports_prefix_tree(model, CPU)
