"""The README's picture of a run: `make picture` draws it, and it shows what a run shows now."""

import html
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from collab.recipe import load_task

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words_of(svg: str) -> list[str]:
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return html.unescape(" ".join(texts)).replace("\xa0", " ").split()


@pytest.fixture(scope="module")
def drawn(picture: ModuleType) -> list[str]:
    """The words of a run that is played now."""
    return words_of(picture.draw(model="echo"))


def test_the_command_draws_a_run(picture: ModuleType, drawn: list[str]) -> None:
    assert f"$ {picture.COMMAND} {picture.TEAM} on" in " ".join(drawn)
    assert {"aux,", "main,", "not", "solved", "judged"} <= set(drawn)


def test_the_picture_has_the_words_of_a_run_of_today(picture: ModuleType, drawn: list[str]) -> None:
    """Titles, parts and labels stand in both; numbers and the agents' texts differ."""
    words = words_of(picture.PICTURE.read_text())
    labels = ["points", "why", "judged", "isolation", "return", "responses", "prompt", "record:"]
    reward = load_task("pocket-code").reward
    assert reward is not None
    for label in [*labels, *reward.parts, picture.COMMAND.split()[-1]]:
        assert (label in words) == (label in drawn) is True, label
