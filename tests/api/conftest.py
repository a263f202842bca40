"""A tiny model, and a team that can be trained on it."""

from pathlib import Path
from typing import Any

import pytest

import collab

ROWS = [{"prompt": f"say a word {n}", "wanted": "left"} for n in range(4)]


@pytest.fixture(scope="session")
def tiny(tiny_words: Path) -> dict[str, Any]:
    return {"name": str(tiny_words), "dtype": "float32", "device": "cpu"}


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
