"""A tiny model, and a team that can be trained on it."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS

import collab

ROWS = [{"prompt": f"say a word {n}", "wanted": "left"} for n in range(4)]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A random Llama that knows a dozen words."""
    folder = save_tiny(tmp_path_factory.mktemp("tiny"), WORDS)
    return {"name": str(folder), "dtype": "float32", "device": "cpu"}


@pytest.fixture
def pair(tiny: dict[str, Any]) -> collab.Team:
    """A team of two agents that say one word each."""
    return collab.Team(
        name="pair",
        agents={
            "a": collab.Agent(prompt="{{ task.prompt }}"),
            "b": collab.Agent(prompt="{{ task.prompt }} again", role="you"),
        },
        model=tiny,
        sampling={"max_new_tokens": 3},
    )


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Use one thread: the model is too small for a second one to help."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
