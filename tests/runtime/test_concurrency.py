"""The number of episodes that run at the same time."""

from typing import Any

import pytest
import torch

from collab.models import weights
from collab.recipe import load_recipe
from collab.recipe.recipe import DEFAULT_CONCURRENCY, WIDE_CONCURRENCY
from collab.runtime.session import concurrency_of

TWO = {"engine": "vllm", "name": "m", "servers": ["http://one:1", "http://two:2"]}


@pytest.mark.parametrize(
    ("model", "concurrency", "expected"),
    [
        ("echo", None, DEFAULT_CONCURRENCY),
        ("smollm2-135m", None, DEFAULT_CONCURRENCY),
        ("vllm:smollm2-135m", None, WIDE_CONCURRENCY),
        (TWO, None, 2 * WIDE_CONCURRENCY),
        (TWO, 8, 8),
        ({"name": "smollm2-135m", "device": "cuda:99"}, None, DEFAULT_CONCURRENCY),
        ("echo", 100, 100),
    ],
)
def test_concurrency_depends_on_the_engine_unless_set(
    model: Any, concurrency: int | None, expected: int
) -> None:
    recipe = load_recipe("coding", task="humaneval", model="echo")
    data = {**recipe.model_dump(), "model": model, "concurrency": concurrency}
    assert concurrency_of(type(recipe).model_validate(data)) == expected


def test_a_local_model_on_a_gpu_gets_wide_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("coding", task="humaneval", model="smollm2-135m")
    monkeypatch.setattr(weights, "pick_device", lambda _: torch.device("cuda"))
    assert concurrency_of(recipe) == WIDE_CONCURRENCY
