"""The number of episodes that run at the same time."""

from typing import Any

import pytest
import torch

from collab.models import weights
from collab.recipe import load_recipe
from collab.recipe.recipe import LANES, WIDE_LANES
from collab.runtime.session import lanes_of

TWO = {"engine": "vllm", "name": "m", "servers": ["http://one:1", "http://two:2"]}


@pytest.mark.parametrize(
    ("model", "concurrency", "lanes"),
    [
        ("echo", None, LANES),
        ("smollm2-135m", None, LANES),
        ("vllm:smollm2-135m", None, WIDE_LANES),
        (TWO, None, 2 * WIDE_LANES),
        (TWO, 8, 8),
        ({"name": "smollm2-135m", "device": "cuda:99"}, None, LANES),
        ("echo", 100, 100),
    ],
)
def test_number_of_lanes_depends_on_the_engine_unless_set(
    model: Any, concurrency: int | None, lanes: int
) -> None:
    recipe = load_recipe("coding", task="humaneval", model="echo")
    data = {**recipe.model_dump(), "model": model, "concurrency": concurrency}
    assert lanes_of(type(recipe).model_validate(data)) == lanes


def test_a_local_model_on_a_gpu_gets_wide_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("coding", task="humaneval", model="smollm2-135m")
    monkeypatch.setattr(weights, "pick_device", lambda _: torch.device("cuda"))
    assert lanes_of(recipe) == WIDE_LANES
