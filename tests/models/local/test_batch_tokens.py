"""The size of a sampling batch depends on the device, free memory and size of a token."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.tiny_models import tiny

from collab.models.local.batching import (
    CPU_BATCH_TOKENS,
    MAX_BATCH_TOKENS,
    MIN_BATCH_TOKENS,
    SAMPLING_BYTES,
    batch_bytes,
    default_batch_tokens,
    gpu_batch_tokens,
)
from collab.models.local.dimensions import Dimensions, dimensions_of
from collab.models.local.fast.shared_prefix import SharedPrefixCache
from collab.models.local.kv_cache import KVCache
from collab.models.local.multi_lora import NO_ADAPTER

GPU = torch.device("cuda")
GB = 10**9
QWEN_3B = Dimensions(36, 2048, 11_008, 512, 151_936, 2)


def model() -> Any:
    config = SimpleNamespace(
        num_hidden_layers=36,
        hidden_size=2048,
        intermediate_size=11_008,
        num_attention_heads=16,
        num_key_value_heads=2,
        vocab_size=151_936,
        _attn_implementation="sdpa",
    )
    config.get_text_config = lambda: config
    return SimpleNamespace(config=config, dtype=torch.bfloat16)


def test_batch_size_on_a_cpu_is_fixed() -> None:
    assert default_batch_tokens(model(), torch.device("cpu"), 768) == CPU_BATCH_TOKENS == 32_768


@pytest.mark.parametrize("free", [20, 70])
def test_batch_size_on_a_gpu_follows_its_free_memory(
    free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"memory_reserved": 3 * GB, "memory_allocated": 1 * GB}
    for name, value in held.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, value=value: value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: ((free - 2) * GB, 80 * GB))
    found = default_batch_tokens(model(), GPU, 768)
    assert found == gpu_batch_tokens(QWEN_3B, free * GB, 768)
    rows = found // 768
    assert rows >= 100
    assert batch_bytes(QWEN_3B, rows, 768) < 0.8 * free * GB


def test_batch_size_stays_within_its_bounds() -> None:
    assert gpu_batch_tokens(QWEN_3B, 0, 768) == MIN_BATCH_TOKENS
    assert gpu_batch_tokens(QWEN_3B, 10_000 * GB, 768) == MAX_BATCH_TOKENS


def held_bytes(cache: KVCache) -> int:
    """Bytes of all buffers of a cache, including spare room."""
    values = [value for layer in cache._cache.layers for value in vars(layer).values()]
    buffers = [x.untyped_storage() for x in values if isinstance(x, torch.Tensor)]
    return sum({buffer.data_ptr(): buffer.nbytes() for buffer in buffers}.values())


@pytest.mark.parametrize("heads", [1, 2, 4], ids=["one", "grouped", "each"])
@pytest.mark.parametrize(("prompt", "new"), [(200, 20), (100, 129)])
@torch.no_grad()
def test_cache_size_is_as_planned(heads: int, prompt: int, new: int) -> None:
    """The prompts differ, so nothing is shared."""
    model = tiny("qwen2", num_hidden_layers=2, num_key_value_heads=heads, use_sliding_window=False)
    rows, most = 3, 0
    cache = SharedPrefixCache(model, [NO_ADAPTER] * rows)
    cache.read(torch.arange(3 * prompt).view(rows, prompt) % 47, torch.ones(rows, prompt))
    for token in range(new):
        cache.extend(torch.full((rows,), token % 47))
        most = max(most, held_bytes(cache))
    dimensions = dimensions_of(model.config, torch.float32.itemsize)
    counted = (
        batch_bytes(dimensions, rows, prompt + new) - rows * dimensions.vocabulary * SAMPLING_BYTES
    )
    assert dimensions.key_values == 2 * heads * 8
    one_layer, room = 2 / 3, (prompt + new) / (prompt + new + 64)
    assert room * one_layer <= most / counted <= one_layer
