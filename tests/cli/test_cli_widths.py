"""Tables fit terminals of several widths without losing text."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from support.command_line import Collab

from collab.cli.screen.page import Page, PlainPage, TerminalPage
from collab.cli.screen.results import show_evaluation, show_probe, show_study
from collab.evaluation.results import Results
from collab.probe.results import TeamProbe
from collab.study.results import CellResult, Point, StudyResults, differences, trainer_results

WIDTHS = [60, 80, 200]
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def terminal(width: int) -> TerminalPage:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    return TerminalPage(console)


def shown(page: TerminalPage) -> str:
    assert isinstance(page.console.file, io.StringIO)
    return _ANSI.sub("", page.console.file.getvalue()).replace("\r", "\n")


def check(show: Callable[[Page], None], width: int) -> str:
    """Check that the output fits, and that a wide terminal shows every word of the plain page."""
    plain, narrow = io.StringIO(), terminal(width)
    show(PlainPage(plain))
    show(narrow)
    assert max(map(len, shown(narrow).splitlines())) <= width
    assert "…" not in shown(narrow)
    if width == max(WIDTHS):
        assert set(plain.getvalue().split()) <= set(shown(narrow).split())
    return shown(narrow)


def test_an_evaluation_of_four_teams(project: Path, collab: Collab) -> None:
    teams = ["pair", "second-pair", "third-pair-of-them", "fourth"]
    for name in teams[1:]:
        text = (project / "agents" / "pair.yaml").read_text()
        (project / "agents" / f"{name}.yaml").write_text(text)
    result = collab("eval", *teams, "-t", "words", "-m", "echo", "--json", "--out", "out")
    assert result.status == 0, result.out[-800:] + result.err
    results = Results.model_validate(result.events[-1]["results"])
    for width in WIDTHS:
        check(lambda page: show_evaluation(page, results), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_study(width: int) -> None:
    cells = tuple(
        CellResult(
            name=f"{trainer}-{seed}", task="pocket-code", trainer=trainer, seed=seed, status="done",
            points=(Point(tokens=0, value=0.25 + n), Point(tokens=100_000, value=n + seed / 7)),
        )
        for n, trainer in enumerate(("magrpo", "a-trainer-of-mine"))
        for seed in range(3)
    )  # fmt: skip
    marks = (0, 50_000, 100_000)
    results = StudyResults(
        study="s", description="", status="done", tokens=100_000, marks=marks, cells=cells,
        trainers=tuple(trainer_results(cells, marks)),
        differences=tuple(differences(cells, marks)),
    )  # fmt: skip
    assert "At 100,000 generated tokens" in check(lambda page: show_study(page, results), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_probe(project: Path, collab: Collab, width: int) -> None:
    result = collab("probe", "pair", "-t", "words", "-m", "echo", "--tasks", "4", "--out", "out")
    assert result.status == 0, result.err
    outcome = TeamProbe.model_validate_json(Path("out/probe.json").read_bytes())
    assert "before training" in check(lambda page: show_probe(page, outcome), width)
