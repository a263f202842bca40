"""How a recipe asks for vLLM."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from collab.errors import ModelUnavailable
from collab.models.open import open_model
from collab.models.vllm import process
from collab.recipe.model import ModelSpec, TransformersModel, VLLMModel, local_weights

SPEC: TypeAdapter[ModelSpec] = TypeAdapter(ModelSpec)


def test_in_process_by_a_name() -> None:
    model = SPEC.validate_python("vllm:smollm2-135m")
    assert model == VLLMModel(name="smollm2-135m")


def test_servers_share_the_load() -> None:
    urls = ["http://127.0.0.1:8000/", "https://gpu2:8001/v1"]
    model = SPEC.validate_python({"engine": "vllm", "name": "m", "servers": urls})
    assert isinstance(model, VLLMModel)
    assert model.servers == ("http://127.0.0.1:8000", "https://gpu2:8001")
    assert SPEC.validate_python(model.model_dump()) == model


def test_the_trainer_holds_the_same_model() -> None:
    model = VLLMModel(name="m", revision="main", dtype="float32", trainer_device="cuda:1")
    weights = TransformersModel(name="m", revision="main", dtype="float32", device="cuda:1")
    assert local_weights(model) == weights
    assert local_weights(weights) == weights
    assert local_weights(SPEC.validate_python("echo")) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"servers": "gpu:8000"}, "server 1 is no address; write it as http://HOST:PORT"),
        ({"servers": "user:secret@gpu:8000"}, "server 1 is no address"),
        ({"servers": "http://user:sec/ret@gpu"}, "server 1 is no address"),
        ({"servers": ["http://gpu", "http://gpu:0"]}, "server 2 is no address"),
        (
            {"servers": "http://user:secret@gpu"},
            "server 1 at gpu holds more than host, port and path; a key, VLLM_API_KEY, comes from",
        ),
        ({"servers": "http://gpu", "memory_share": 0.3}, "--gpu-memory-utilization"),
        ({"servers": "http://gpu", "sleep": True}, "servers keep their memory"),
        ({"memory_share": 1.5}, "less than or equal to 1"),
        ({"server": "http://gpu"}, "did you mean 'servers'?"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as told:
        SPEC.validate_python({"engine": "vllm", "name": "m", **options})
    assert words in str(told.value)
    assert "sec" not in str(told.value.errors()[0]["msg"])


def test_without_vllm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'collab\[vllm\]', or give `servers`"):
        open_model(VLLMModel(name="smollm2-135m"))
