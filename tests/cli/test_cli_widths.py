"""Tables on terminals of several widths: columns are left out and named, numbers are never cut."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from support.episodes import make_episode, make_score

from collab.cli.commands.probe import show_probe
from collab.cli.live.evaluating import show_results
from collab.cli.live.running import LiveRun, RunReport
from collab.cli.live.training import LiveTraining, gains_table
from collab.cli.screen import terminal as screen
from collab.cli.screen.page import Column, Page, PlainPage
from collab.cli.screen.study import show_results as show_study
from collab.cli.screen.terminal import TerminalPage, Wish, fit
from collab.evaluation.results import Results
from collab.probe.results import TeamProbe
from collab.runtime.events import EpisodeFinished, RunFinished, RunStarted
from collab.runtime.summary import summarise
from collab.study.results import CellResult, Point, StudyResults, differences, trainer_results
from collab.trainers.training.events import StepFinished

WIDTHS = [60, 80, 120, 200]
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NUMBER = re.compile(r"\d[\d.,:/%]*\d|\d")


def terminal(width: int) -> TerminalPage:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    return TerminalPage(console)


def shown(page: TerminalPage) -> str:
    assert isinstance(page.console.file, io.StringIO)
    return _ANSI.sub("", page.console.file.getvalue()).replace("\r", "\n")


def check_fits(plain: str, narrow: str, width: int) -> None:
    """All that is shown fits, and every number in it is one of the plain page, whole."""
    assert max(map(len, narrow.splitlines())) <= width
    assert "…" not in narrow
    said = re.sub(r"no room at \d+ columns for", "", narrow)
    assert set(_NUMBER.findall(said)) <= set(_NUMBER.findall(plain))


def compare(show: Callable[[Page], None], width: int) -> str:
    plain = io.StringIO()
    show(PlainPage(plain))
    narrow = terminal(width)
    show(narrow)
    check_fits(plain.getvalue(), shown(narrow), width)
    return shown(narrow)


@pytest.fixture
def at_width(monkeypatch: pytest.MonkeyPatch, collab) -> Callable[..., str]:
    """The output of a command on a terminal, checked against that in a pipe."""

    in_a_pipe: dict[tuple[str, ...], str] = {}

    def run(width: int, *arguments: str) -> str:
        if arguments not in in_a_pipe:
            plain = collab(*arguments)
            assert plain.status == 0, plain.err
            in_a_pipe[arguments] = plain.out
        narrow = terminal(width)
        with monkeypatch.context() as patch:
            patch.setattr(screen, "open_page", lambda: narrow)
            assert collab(*arguments).status == 0
        check_fits(in_a_pipe[arguments], shown(narrow), width)
        return shown(narrow)

    return run


def test_what_lists_things(at_width, project: Path, collab) -> None:
    collab("run", "pair", "-t", "words/0-7", "-n", "11", "-m", "echo", "--out", "out")
    for width in WIDTHS:
        listed = at_width(width, "show", "out")
        assert "words/7#10" in listed
        assert "1.00" in listed
    collab("run", "pair", "-t", "words/0-7", "-m", "echo")
    collab("run", "pair", "-t", "words", "-m", "echo", "--seed", "12345", "--out", "other")
    for width in WIDTHS:
        at_width(width, "show")
        assert "12345" in at_width(width, "diff", "out", "other")
    for arguments in (
        ("tasks",),
        ("teams",),
        ("trainers",),
        ("tasks", "words"),
        ("tasks", "humaneval"),
    ):
        for width in WIDTHS:
            at_width(width, *arguments)


def test_a_narrow_list_of_episodes_names_what_it_leaves_out(
    at_width, project: Path, collab
) -> None:
    path = project / "tasks" / "words.jsonl"
    path.write_text(path.read_text().replace('"task_id": "', '"task_id": "long-name-'))
    collab("run", "pair", "-t", "words", "-m", "echo", "--out", "out")
    headings = at_width(60, "show", "out").splitlines()
    assert [line.split() for line in headings if "episode" in line] == [
        ["episode", "verdict", "return", "of", "tokens", "flags"]
    ]
    assert "no room at 60 columns for: turns" in headings
    assert "no room" not in at_width(120, "show", "out")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_run(width: int) -> None:
    scores = [make_score(1234.5, solved=False), make_score(0.25, solved=True)]
    episodes = [make_episode("suite/123456", n, score) for n, score in enumerate(scores)]
    opening = RunStarted(
        run="r", folder="runs/r", team="pair", agents=("aux", "main"), seed=123456789,
        models={"aux": "a-model-1.5b-instruct", "main": "another-model-0.5b"}, turns=1,
        tasks=("suite/123456",), samples=2, isolation="sealed", versions={},
    )  # fmt: skip

    def show(page: Page) -> None:
        view = LiveRun(page) if isinstance(page, TerminalPage) else RunReport(page)
        view.see(opening)
        for episode in episodes:
            view.see(EpisodeFinished(episode=episode))
        summary = summarise(episodes, 12.3)
        view.see(RunFinished(run="r", status="done", summary=summary))

    assert "another-model-0.5b" in compare(show, width)


def test_an_evaluation_of_four_teams(project: Path, collab) -> None:
    teams = ["pair", "second-pair", "third-pair-of-them", "fourth"]
    for name in teams[1:]:
        text = (project / "agents" / "pair.yaml").read_text()
        (project / "agents" / f"{name}.yaml").write_text(text)
    result = collab("eval", *teams, "-t", "words", "-m", "echo", "--json", "--out", "out")
    assert result.status == 0, result.out[-800:] + result.err
    results = Results.model_validate(result.events[-1]["results"])
    for width in WIDTHS:
        told = compare(lambda page: show_results(page, results), width)
        assert ("no room" in told) == (width == 60)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_training_run(width: int) -> None:
    metrics = {"return/mean": 1234.567, "return/spread_in_group": 1.5, "solved": 0.25}
    metrics |= {"groups/dead": 0.125, "episodes/dropped": 0.0, "tokens_per_second": 12345.0}
    metrics |= {"seconds": 1234.5}
    metrics |= {f"agent/{name}/kl": 0.123 for name in ("one", "two", "three")}
    metrics |= {f"agent/{name}/entropy": 10.25 for name in ("one", "two", "three")}
    page = terminal(width)
    view = LiveTraining(page)
    view.see(StepFinished(step=1234, steps=99999, metrics=metrics))
    view.close()
    assert "1234/99999" in shown(page)
    assert "1234.57" in shown(page)
    told = "1234.57 1.500 25% 12% 0% 10.25/10.25/10.25 0.123/0.123/0.123 12345 1234.5 1234/99999"
    check_fits(told, shown(page), width)

    gain = {
        "tasks": 1234,
        "maximum": 4.0,
        "gain": 0.125,
        "error": 0.5,
        "before": 1.25,
        "after": 123.5,
    }
    gains = {"sampled": gain | {"solved_before": 0.5, "solved_after": None}}
    compare(lambda page: page.table(*gains_table(gains)), width)


def test_columns_of_higher_rank_are_left_out_first() -> None:
    wishes = [Wish(9, 9, rank=9), Wish(5, 5, rank=1), Wish(5, 5), Wish(5, 20), Wish(5, 5)]
    assert fit(wishes, 60) == [9, 5, 5, 20, 5]
    assert fit(wishes, 40) == [9, 5, 5, 8, 5]
    assert fit(wishes, 36) == [9, 0, 5, 11, 5]
    assert fit(wishes, 23) == [9, 0, 5, 5, 0]
    assert fit(wishes, 3) == [9, 0, 0, 0, 0]


def test_long_paths_go_on_in_the_next_line_and_texts_wrap() -> None:
    narrow = terminal(60)
    path = "/somewhere/" + "x" * 60
    narrow.table(
        [Column("path"), Column("why", wrap=True), Column("n", right=True)],
        [[path, "because " * 9, "123"]],
    )
    told = shown(narrow)
    assert "".join(line[:32].strip() for line in told.splitlines()[3:6]) == path
    assert told.count("because") == 9
    assert "123" in told


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
    told = compare(lambda page: show_study(page, results), width)
    assert "a-trainer-of-mine" in told
    assert "at 100,000 tokens" in told


@pytest.mark.parametrize("width", WIDTHS)
def test_a_probe(project: Path, collab, width: int) -> None:
    told = collab("probe", "pair", "-t", "words", "-m", "echo", "--tasks", "4", "--out", "out")
    assert told.status == 0, told.err
    found = TeamProbe.model_validate_json(Path("out/probe.json").read_bytes())
    assert "before training" in compare(lambda page: show_probe(page, found), width)
