"""The pictures drawn by `make picture`: README's run and the figure of docs/results.md."""

import html
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from collab.recipe import load_task

ROOT = Path(__file__).parents[2]


def module_of_docs(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    return module_of_docs("picture")


def words_of(svg: str) -> list[str]:
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return html.unescape(" ".join(texts)).replace("\xa0", " ").split()


@pytest.fixture(scope="module")
def drawn(picture: ModuleType) -> list[str]:
    """The words of a run that is played now."""
    return words_of(picture.draw(model="echo"))


def test_the_command_draws_a_run(picture: ModuleType, drawn: list[str]) -> None:
    assert f"$ {picture.COMMAND} {picture.TEAM} on" in " ".join(drawn)
    assert {"aux,", "main,", "not", "solved", "scored"} <= set(drawn)


def test_picture_matches_the_current_output(picture: ModuleType, drawn: list[str]) -> None:
    """Titles, parts and labels match; numbers and the agents' texts differ."""
    words = words_of(picture.PICTURE.read_text())
    labels = ["points", "why", "scored", "isolation", "return", "responses", "prompt", "record:"]
    reward = load_task("pocket-code").reward
    assert reward is not None
    for label in [*labels, *reward.parts, picture.COMMAND.split()[-1]]:
        assert (label in words) == (label in drawn) is True, label


def test_the_figure_shows_the_numbers_of_the_table() -> None:
    figure = module_of_docs("figure")
    text = figure.RESULTS.read_text()
    assert len(figure.lines(text)) >= 6
    assert figure.FIGURE.read_text() == figure.draw(text)
