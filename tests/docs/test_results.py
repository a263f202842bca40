"""The numbers and the pictures of the results and the README match what they show."""

import html
import importlib.util
import math
import re
from pathlib import Path
from statistics import mean, stdev
from types import ModuleType

import pytest

from collab.recipe import load_task

ROOT = Path(__file__).resolve().parents[2]
T_OF_THREE_SEEDS = 4.303
"""The 97.5 % quantile of Student's t distribution with two degrees of freedom."""


def column_of(name: str, column: int) -> list[float]:
    """Return the solved % of seeds 0 to 2 in a column, counted from the end, of the first table."""
    text = (ROOT / "docs" / "results_runs.md").read_text()
    rows = re.findall(rf"^\| {name}, trained, seed \d \|(.*)\|$", text, re.MULTILINE)[:3]
    return [float(row.split("|")[column].split(", ")[1].split(" [")[0]) for row in rows]


@pytest.mark.parametrize(("limit", "column"), [("1,000", -1), ("600", -2)])
def test_headline_follows_from_the_table_of_every_run(limit: str, column: int) -> None:
    pairs = zip(column_of("team", column), column_of("one agent", column), strict=True)
    lead = [team - agent for team, agent in pairs]
    margin = T_OF_THREE_SEEDS * stdev(lead) / math.sqrt(3)
    wanted = [mean(lead), mean(lead) - margin, mean(lead) + margin]
    text = " ".join((ROOT / "docs" / "results.md").read_text().split())
    shown = re.search(rf"Within {limit},? ?(?:tokens, )?(?:the team|it) .*? by .*?\]", text)
    assert shown is not None
    size, low, high = map(float, re.findall(r"-?\d+\.\d", shown[0]))
    stated = [-size if "trails" in shown[0] else size, low, high]
    assert stated == pytest.approx(wanted, abs=0.25), "the table is rounded to 0.1"
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert re.search(
        rf"{stated[0]:.1f} (points )?\((95 % interval over seeds: )?{low} to {high}\)", readme
    )


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
