"""Rows that share a prompt read it once, and get the same results as alone."""

import asyncio
import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_models import tiny
from torch import Tensor

from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.models.local.fast.cuda_graph import GraphedCache
from collab.models.local.fast.equivalence import supports_shared_prefix
from collab.models.local.fast.shared_prefix import SharedPrefixCache
from collab.models.local.kv_cache import KVCache
from collab.models.local.multi_lora import NO_ADAPTER
from collab.records import Sampling

PROMPTS, NEW = 3, 70
"""More new tokens than a buffer's first size."""


@torch.no_grad()
def logits_of(module: Any, kind: type[KVCache]) -> list[Tensor]:
    """Logits for prompts of different lengths with one to three rows; some rows end early."""
    chance = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 50, (PROMPTS, 9), generator=chance)
    mask = torch.ones_like(ids)
    mask[0, :4] = mask[2, :1] = 0
    ids[2, 1:8] = ids[1, :7]  # they begin alike
    prefixes = kind(module, [NO_ADAPTER] * PROMPTS)
    found = []
    with prefixes.row_adapters.apply(module) if prefixes.row_adapters else nullcontext():
        found.append(prefixes.read(ids, mask))
        prefixes.select([2, 0, 1, 2, 1, 2])
        rows = 6
        for step in range(NEW):
            tokens = torch.randint(3, 50, (6,), generator=chance)[:rows]
            found.append(prefixes.extend(tokens))
            if step == 2:  # no row of prompt 0 is left
                prefixes.select([0, 2, 4, 5])
                rows = 4
            if step == 68:
                prefixes.select([3])
                rows = 1
    return found


class Replayed:
    """Stands in for a CUDA graph: computes the captured function again in place."""

    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        self.logits.copy_(self.read(self.tokens))

    def take(self, read: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
        self.read, self.tokens, self.logits = read, tokens, read(tokens)
        return self.logits


GRAPHS: list[Replayed] = []


class Graphed(GraphedCache):
    """A cache with stand-ins for its CUDA graphs, which it adds to `GRAPHS`."""

    def _capture_logits(self, graph: Any, tokens: Tensor) -> Tensor:
        GRAPHS.append(graph)
        return GRAPHS[-1].take(self._read_one, tokens)

    def extend(self, tokens: Tensor) -> Tensor:
        return super().extend(tokens).clone()


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of captured graphs whenever cached memory is released, with stand-ins for CUDA."""
    found: list[int] = []
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Replayed)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: found.append(len(GRAPHS)))
    yield found
    GRAPHS.clear()


@pytest.mark.parametrize(
    ("model_type", "options"),
    [
        ("llama", {}),
        ("llama", {"num_key_value_heads": 4}),
        ("llama", {"head_dim": 6}),
        ("qwen3", {}),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
        ("granite", {"attention_multiplier": 0.3}),
    ],
)
@pytest.mark.usefixtures("released")
def test_shared_prefix_gives_the_same_logits(model_type: str, options: dict[str, Any]) -> None:
    module = tiny(model_type, **options)
    assert supports_shared_prefix(module)
    apart = logits_of(module, KVCache)
    for kind in (SharedPrefixCache, Graphed):
        for ours, theirs in zip(logits_of(module, kind), apart, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert module.config._attn_implementation == "sdpa"


def test_support_is_detected_for_bfloat16_models() -> None:
    assert supports_shared_prefix(tiny("llama").to(torch.bfloat16))
    assert not supports_shared_prefix(tiny("bloom", n_layer=2, n_head=4).to(torch.bfloat16))


def test_large_key_biases_keep_scores_accurate() -> None:
    """Qwen2.5's key biases push scores to hundreds, where bfloat16 resolves only whole numbers."""
    module = tiny("qwen2", use_sliding_window=False).to(torch.bfloat16)
    for layer in module.model.layers:
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            projection.bias.data.normal_(std=20)
    assert supports_shared_prefix(module)
    together, apart = (logits_of(module, kind) for kind in (SharedPrefixCache, KVCache))
    for ours, theirs in zip(together, apart, strict=True):
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


@pytest.mark.parametrize(
    ("model_type", "options"),
    [
        ("mistral", {"sliding_window": 8}),
        ("gemma2", {"head_dim": 8}),
        ("llama", {"attn_implementation": "eager"}),
        ("mamba", {}),
        ("bloom", {"n_layer": 2, "n_head": 4}),  # cannot be seen in its configuration
    ],
)
def test_models_with_other_attention_share_no_prefix(
    model_type: str, options: dict[str, Any]
) -> None:
    assert not supports_shared_prefix(tiny(model_type, **options))


def test_one_layer_with_other_attention_disables_sharing() -> None:
    module = tiny("llama", num_hidden_layers=4)
    assert supports_shared_prefix(module)
    module = tiny("llama", num_hidden_layers=4)
    other_config = copy.deepcopy(module.config)
    other_config._attn_implementation = "eager"
    module.model.layers[1].self_attn.config = other_config
    assert not supports_shared_prefix(module)


@torch.no_grad()
def test_prompt_without_remaining_rows_is_freed() -> None:
    prefixes = SharedPrefixCache(tiny("llama"), [NO_ADAPTER] * 3)
    prefixes.read(torch.randint(3, 50, (3, 5)), torch.ones(3, 5, dtype=torch.long))
    prefixes.select([0, 1, 1, 2])
    prefixes.extend(torch.tensor([5, 6, 7, 8]))
    prefixes.select([1, 2])
    layers = prefixes._cache.layers
    assert [len(layer._keys) for layer in layers] == [1, 1]
    assert prefixes.extend(torch.tensor([9, 10])).shape == (2, 50)


@pytest.mark.parametrize("kind", [SharedPrefixCache, KVCache])
@torch.no_grad()
def test_ended_row_may_exceed_the_context(kind: type[KVCache]) -> None:
    module = tiny("gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=10)
    ids = torch.randint(3, 50, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    both, one = (kind(module, [NO_ADAPTER] * n) for n in (2, 1))
    both.read(ids, mask)
    one.read(ids[1:, 5:], mask[1:, 5:])
    for token in range(10, 15):
        found = both.extend(torch.tensor([token, token]))[1:]
        torch.testing.assert_close(found, one.extend(torch.tensor([token])), rtol=1e-4, atol=1e-5)


def test_model_can_be_trained_after_sampling() -> None:
    ropes = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    module = tiny("llama", rope_parameters=ropes, max_position_embeddings=8)
    before = module.model.rotary_emb.inv_freq
    ids = torch.randint(3, 50, (1, 9))
    with torch.inference_mode():
        prefixes = SharedPrefixCache(module, [NO_ADAPTER])
        prefixes.read(ids, torch.ones_like(ids))
        prefixes.extend(torch.tensor([7]))
    assert module.model.rotary_emb.inv_freq is not before  # updated beyond the original positions
    module(input_ids=ids.repeat(1, 2)).logits.sum().backward()
    assert module.lm_head.weight.grad.norm() > 0


def test_cuda_graph_is_captured_after_changes_and_replayed(released: list[int]) -> None:
    logits_of(tiny("qwen3"), Graphed)
    # The first token after a change is read alone: at the start, after rows ended twice, and when
    # the buffers of 64 tokens grow. One token is left after the last change.
    assert [graph.replays for graph in GRAPHS] == [2, 60, 4]
    assert released == [0, 1, 2], "before each capture, which cannot release memory itself"


SHORT, LONG = (5, 6, 7), (9, 8, 7, 6, 5, 4)


def requests_of(prompts: list[tuple[int, ...]], adapters: list[str | None]) -> list[Request]:
    return [
        Request(
            call=Call(task="t", sample=n, turn=0, round=0, agent="a"),
            prompt_ids=prompt,
            sampling=Sampling(max_new_tokens=6),
            adapter=adapters[n % len(adapters)],
            seed=n,
        )
        for n, prompt in enumerate(prompts)
    ]


def prompt_tokens_read(engine: TransformersEngine, requests: list[Request]) -> tuple[int, Any]:
    """Return the number of prompt tokens read, including padding, and the actions."""
    supports_shared_prefix(engine.module)  # run its probe now, because it reads tokens too
    sizes: list[tuple[int, int]] = []
    embeddings = engine.module.get_input_embeddings()
    hook = embeddings.register_forward_pre_hook(lambda _, ids: sizes.append(tuple(ids[0].shape)))
    actions = asyncio.run(engine.generate(requests))
    hook.remove()
    return sum(rows * time for rows, time in sizes if time > 1), actions


@pytest.mark.parametrize("with_adapters", [False, True])
def test_a_prompt_is_read_once(
    tiny_engine: TransformersEngine, adapters: dict[str, Path], with_adapters: bool
) -> None:
    named: list[str | None] = [None]
    if with_adapters:
        named = [str(adapters["aux"]), None, str(adapters["main"])]
    requests = requests_of([SHORT, LONG, LONG] * 4, named)
    tokens, together = prompt_tokens_read(tiny_engine, requests)
    # Each distinct prompt, padded to the longest.
    assert tokens == (3 if with_adapters else 2) * len(LONG)
    for request, action in zip(requests, together, strict=True):
        (alone,) = asyncio.run(tiny_engine.generate([request]))
        assert action.token_ids == alone.token_ids
        assert action.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


@pytest.mark.parametrize("prompts", [[SHORT, LONG], [(5,), (5,), LONG]])
def test_distinct_prompts_share_nothing(
    tiny_engine: TransformersEngine, prompts: list[tuple[int, ...]]
) -> None:
    requests = requests_of(prompts, [None])
    tokens, together = prompt_tokens_read(tiny_engine, requests)
    assert tokens == len(set(prompts)) * len(LONG)
    alone = [asyncio.run(tiny_engine.generate([request]))[0] for request in requests]
    assert [a.token_ids for a in together] == [a.token_ids for a in alone]


@pytest.mark.parametrize("with_adapters", [False, True])
def test_common_beginnings_are_read_once(
    tiny_engine: TransformersEngine, adapters: dict[str, Path], with_adapters: bool
) -> None:
    """In a sequential team, a second agent's prompts differ only in the first one's answer."""
    one, other = tuple(range(5, 25)), tuple(range(25, 35))
    prompts = [(*one, 3), (*one, 4, 5), (*one, 4, 6, 7), (*other, 3), (*other, 4), (*one[:3], 30)]
    named: list[str | None] = [str(adapters["aux"]) if with_adapters else None]
    requests = requests_of(prompts, named)
    tokens, together = prompt_tokens_read(tiny_engine, requests)
    assert tokens == 3 * len(one) + 6 * 3
    for request, action in zip(requests, together, strict=True):
        (alone,) = asyncio.run(tiny_engine.generate([request]))
        assert action.token_ids == alone.token_ids
        assert action.logprobs == pytest.approx(alone.logprobs, abs=1e-4)


def test_adapters_share_no_beginning(
    tiny_engine: TransformersEngine, adapters: dict[str, Path]
) -> None:
    prompts = [(*range(5, 15), token) for token in (3, 4)]
    requests = requests_of(prompts, [str(adapters["aux"]), str(adapters["main"])])
    tokens, together = prompt_tokens_read(tiny_engine, requests)
    assert tokens == 2 * 11
    alone = [asyncio.run(tiny_engine.generate([request]))[0] for request in requests]
    assert [a.token_ids for a in together] == [a.token_ids for a in alone]
