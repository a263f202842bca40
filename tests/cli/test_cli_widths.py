"""Tables on terminals of several widths: they fit, and nothing is left out."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from collab.cli.commands import diff, show
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
    """All that is shown fits, and a wide terminal shows each word of the plain page."""
    plain, narrow = io.StringIO(), terminal(width)
    show(PlainPage(plain))
    show(narrow)
    assert max(map(len, shown(narrow).splitlines())) <= width
    assert "…" not in shown(narrow)
    if width == max(WIDTHS):
        assert set(plain.getvalue().split()) <= set(shown(narrow).split())
    return shown(narrow)


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_lists_of_runs_and_episodes(
    project: Path, collab, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    collab("run", "pair", "-t", "words/0-7", "-n", "2", "-m", "echo", "--out", "runs/one")
    collab("run", "pair", "-t", "words", "-m", "echo", "--seed", "12345", "--out", "runs/two")
    for module, arguments, word in (
        (show, ["show", "runs/one"], "words/7#1"),
        (show, ["show"], "runs/two"),
        (diff, ["diff", "runs/one", "runs/two"], "12345"),
    ):
        page = terminal(width)
        with monkeypatch.context() as patch:
            patch.setattr(module, "open_page", lambda page=page: page)
            assert collab(*arguments).status == 0
        assert max(map(len, shown(page).splitlines())) <= width
        assert word in shown(page)


def test_an_evaluation_of_four_teams(project: Path, collab) -> None:
    teams = ["pair", "second-pair", "third-pair-of-them", "fourth"]
    for name in teams[1:]:
        text = (project / "agents" / "pair.yaml").read_text()
        (project / "agents" / f"{name}.yaml").write_text(text)
    result = collab("eval", *teams, "-t", "words", "-m", "echo", "--json", "--out", "out")
    assert result.status == 0, result.out[-800:] + result.err
    results = Results.model_validate(result.events[-1]["results"])
    for width in WIDTHS:
        check(lambda page: show_evaluation(page, results), width)


def test_long_paths_and_texts_continue_on_the_next_line() -> None:
    narrow = terminal(60)
    path = "/somewhere/" + "x" * 60
    narrow.table(["path", "why", ">n"], [[path, "because " * 9, "123"]])
    text = shown(narrow)
    assert text.count("x") == 60
    assert text.count("because") == 9
    assert "123" in text


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
        trainers=tuple(trainer_results(cells, marks, None)),
        differences=tuple(differences(cells, marks)),
    )  # fmt: skip
    assert "At 100,000 generated tokens" in check(lambda page: show_study(page, results), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_probe(project: Path, collab, width: int) -> None:
    result = collab("probe", "pair", "-t", "words", "-m", "echo", "--tasks", "4", "--out", "out")
    assert result.status == 0, result.err
    outcome = TeamProbe.model_validate_json(Path("out/probe.json").read_bytes())
    assert "before training" in check(lambda page: show_probe(page, outcome), width)
