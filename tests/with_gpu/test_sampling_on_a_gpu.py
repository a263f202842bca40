"""Sampling on a GPU: a CUDA graph gives the same logits as separate kernel launches."""

import logging
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from collab.models.local.fast.accelerated import accelerated_cache
from collab.models.local.fast.cuda_graph import GraphedCache
from collab.models.local.fast.shared_prefix import SharedPrefixCache
from collab.models.local.kv_cache import KVCache
from collab.models.local.multi_lora import NO_ADAPTER
from collab.recipe import LoraSpec
from collab.trainers.learner.lora import add_adapter

pytestmark = pytest.mark.gpu

PROMPTS, NEW = 3, 70
"""More new tokens than a buffer's first size."""


class Engine:
    """A model that can get adapters."""

    def __init__(self, device: torch.device) -> None:
        torch.manual_seed(0)
        sizes = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 4}
        heads = {"num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000}
        with torch.device(device):
            self.module: Any = Qwen2ForCausalLM._from_config(
                Qwen2Config(**sizes, **heads), dtype=torch.float32
            ).eval()


def with_adapters(device: torch.device) -> Any:
    engine: Any = Engine(device)
    for name in "ab":
        add_adapter(engine, name, LoraSpec(), seed=0, start=None)
    for name, weights in engine.module.named_parameters():
        if "lora_B" in name:
            weights.data.normal_(std=0.05)
    return engine.module


@torch.inference_mode()
def logits_of(module: Any, cache: KVCache) -> list[torch.Tensor]:
    """Logits for prompts of different lengths with one to three rows; some rows end early."""
    chance = torch.Generator().manual_seed(1)
    device = module.device
    ids = torch.randint(3, 50, (PROMPTS, 9), generator=chance)
    mask = torch.ones_like(ids)
    mask[0, :4] = mask[2, :1] = 0
    found = [cache.read(ids.to(device), mask.to(device))]
    cache.select([2, 0, 1, 2, 1, 2])
    rows = 6
    for step in range(NEW):
        tokens = torch.randint(3, 50, (6,), generator=chance)[:rows].to(device)
        found.append(cache.extend(tokens).clone())  # a graph always writes to the same buffer
        if step in (2, 30):
            keep = [0, 2, 4, 5] if step == 2 else [3]
            cache.select(keep)
            rows = len(keep)
    return found


def test_cuda_graph_matches_separate_kernels(
    device: torch.device, caplog: pytest.LogCaptureFixture
) -> None:
    module = with_adapters(device)
    names = ["a", NO_ADAPTER, "b"]
    with caplog.at_level(logging.WARNING), accelerated_cache(module, names) as graphed:
        assert isinstance(graphed, GraphedCache)
        ours = logits_of(module, graphed)
        assert graphed._graph is not None
    assert "CUDA graph" not in caplog.text
    plain = SharedPrefixCache(module, names)
    assert plain.row_adapters is not None
    with plain.row_adapters.apply(module):
        exact = logits_of(module, plain)
    for mine, theirs in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)


def test_model_that_syncs_falls_back_to_separate_kernels(
    device: torch.device, caplog: pytest.LogCaptureFixture
) -> None:
    module = with_adapters(device)
    names = [NO_ADAPTER] * PROMPTS
    with accelerated_cache(module, names) as graphed:
        exact = logits_of(module, graphed)
    module = with_adapters(device)
    layer = module.get_base_model().model.layers[0]
    layer.register_forward_hook(lambda *_: torch.cuda.synchronize())
    with caplog.at_level(logging.WARNING), accelerated_cache(module, names) as graphed:
        ours = logits_of(module, graphed)
    assert "cannot be captured as a CUDA graph" in caplog.text
    for mine, theirs in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
