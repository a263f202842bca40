"""How many tokens are sampled from at once: by device, free memory and what a recipe says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from collab.models.local.batching import (
    CPU_TOKENS,
    LEAST,
    MOST,
    batch_bytes,
    batch_tokens,
    fitting_tokens,
)
from collab.models.local.dimensions import Dimensions

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


def test_a_cpu_samples_as_ever() -> None:
    assert batch_tokens(model(), torch.device("cpu"), 768) == CPU_TOKENS == 32_768


@pytest.mark.parametrize("free", [20, 70])
def test_a_gpu_is_given_what_its_free_memory_holds(
    free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"memory_reserved": 3 * GB, "memory_allocated": 1 * GB}
    for name, value in held.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, value=value: value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: ((free - 2) * GB, 80 * GB))
    found = batch_tokens(model(), GPU, 768)
    assert found == fitting_tokens(QWEN_3B, free * GB, 768)
    rows = found // 768
    assert rows > 100
    assert batch_bytes(QWEN_3B, rows, 768) < 0.8 * free * GB


def test_it_stays_within_its_bounds() -> None:
    assert fitting_tokens(QWEN_3B, 0, 768) == LEAST
    assert fitting_tokens(QWEN_3B, 10_000 * GB, 768) == MOST
