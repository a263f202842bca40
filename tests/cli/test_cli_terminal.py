"""Terminal output: panels, tables that fit, a live part, and colors unless NO_COLOR is set."""

import io
import logging
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console
from support.command_line import Collab
from support.episodes import make_episode, make_score, make_started

from collab.cli.live.progress import LiveView
from collab.cli.screen.episode import show_episode
from collab.cli.screen.page import Block, Page, PlainPage, TerminalPage
from collab.cli.screen.results import show_evaluation, show_probe, show_study
from collab.cli.screen.streams import guard_streams, json_text
from collab.evaluation.results import Results
from collab.probe.results import TeamProbe
from collab.records import Action, Decision, Episode, PartScore, Turn, Usage
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    AgentProgress,
    EpisodeFinished,
    EpisodeStarted,
    RunFinished,
)
from collab.runtime.summary import summarize
from collab.study.results import CellResult, Point, StudyResults, differences, trainer_results
from collab.wording import escape_controls


def console(width: int, colours: Literal["truecolor"] | None = None) -> Console:
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=width, height=40, color_system=colours)


def text_of(terminal: Console) -> str:
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


def decision(agent: str) -> Decision:
    action = Action(text=f"def {agent}(): ...", usage=Usage(new_tokens=9, cost=0.5))
    return Decision(agent=agent, observation=(), action=action)


def episode(reward: float, sample: int = 0) -> Episode:
    part = PartScore(name="tests", level="tests", value=reward, weight=1.0, reason="[2/3] hold")
    score = make_score(reward, maximum=1.0, solved=reward == 1, parts=(part,))
    turn = Turn(
        index=0,
        decisions=(decision("aux"), decision("main")),
        artifacts={"aux": "x = 1", "main": "y = 2"},
        joint="x = 1",
        score=score.model_copy(update={"flags": ("worker_died",)}),
    )
    return Episode(id=f"s/0#{sample}", task="s/0", team="pair", sample=sample, turns=(turn,))


def test_few_episodes_are_shown_in_full() -> None:
    terminal, episodes = console(80), [episode(1.0), episode(1 / 3, 1)]
    view = LiveView(TerminalPage(terminal))
    view.show(make_started(folder="runs/r", tasks=("s/0",), samples=2))
    for item in episodes:
        view.show(EpisodeStarted(episode=item.id, task="s/0", group=0, sample=item.sample))
        view.show(AgentActing(episode=item.id, turn=0, round=0, agent="aux"))
        view.show_loading("downloading", 5_000_000, 10_000_000)
        view.show(AgentProgress(episode=item.id, agent="aux", new_tokens=7, text=""))
        view.show(AgentActed(episode=item.id, turn=0, decision=decision("aux")))
        view.show(EpisodeFinished(episode=item))
    view.show(RunFinished(run="r", status="done", summary=summarize(episodes, 1.0)))
    shown = text_of(terminal)
    for expected in ("aux, 9 tokens", "joined", "[2/3] hold", "flags: worker_died", "$1.0000"):
        assert expected in shown
    assert "2 episodes: 1 solved, 1 not solved; mean return 0.67 of 1.00" in shown
    assert "record: runs/r" in shown


EARLY = make_episode("t", 1, make_score(4.0, solved=True), horizon=2)


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (make_episode("t", 0, make_score(1.5), make_score(2.0), horizon=2), "return 3.50 of 8.00"),
        (EARLY, "return 8.00 of 8.00: solved in turn 1 of 2, its reward counts for the rest"),
        (
            EARLY.model_copy(update={"when_solved": "stop"}),
            "return 4.00 of 8.00: solved in turn 1 of 2, the rest counts nothing",
        ),
    ],
)
def test_an_episode_of_several_turns_ends_with_its_return(ended: Episode, text: str) -> None:
    terminal = console(120)
    show_episode(TerminalPage(terminal), ended)
    assert " ".join(text_of(terminal).split()).endswith(text)


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    def colours() -> str:
        terminal = console(80, "truecolor")
        TerminalPage(terminal).blocks([Block("code", "def f(): return 1")])
        TerminalPage(terminal).table(["a"], [[("1", "green")]])
        return text_of(terminal)

    assert "\x1b[3" in colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in colours()


def test_markup_and_control_characters_are_escaped() -> None:
    terminal = console(80)
    page = TerminalPage(terminal)
    page.line("[red]", ("\x1b]0;title\x07", "dim"))
    page.table(["a"], [["[bold]x"]])
    assert "[red]\\x1b]0;title\\x07" in text_of(terminal)
    assert "[bold]x" in text_of(terminal)
    assert escape_controls("a\r\nb\tc\x9b1m") == "a\nb\tc\\x9b1m"
    assert escape_controls("\u202eevil\u2066\U000e0041") == "\\u202eevil\\u2066\\U000e0041"
    assert escape_controls("a\u3164\U0001d173") == "a\\u3164\\U0001d173"
    assert escape_controls("é 中 \N{FAMILY}\u200d") == "é 中 \N{FAMILY}\u200d"


EVIL = "\x1b]8;;http://evil\x07[link=http://evil]x[/link]\u202e\x9b2J\x1b[2J"
"""Escape codes, markup, and a direction mark."""


def assert_harmless(shown: str) -> None:
    bare = re.sub(r"\x1b\[[0-9;]*[mKAH]|\x1b\[\?25[lh]|\x1b\[1A|\r", "", shown)
    assert not set(bare) & set("\x1b\x07\x9b\u202e"), bare
    assert "[link=http://evil]" in bare.replace("\n", "")


def test_untrusted_text_cannot_control_the_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = console(200)
    view = LiveView(TerminalPage(terminal))
    started = {"agents": (EVIL,), "models": {EVIL: EVIL}, "tasks": (EVIL,)}
    view.show(make_started(run=EVIL, folder=EVIL, team=EVIL, **started))
    view.show(AgentActing(episode=EVIL, turn=0, round=0, agent=EVIL))
    view.show_loading(EVIL, 0, 0)
    print(EVIL, file=sys.stderr)
    terminal.print(EVIL, markup=False)
    view.close()
    assert_harmless(text_of(terminal))


def test_untrusted_text_cannot_control_the_terminal_through_stderr() -> None:
    wrapped = io.StringIO()
    with redirect_stderr(wrapped), guard_streams():
        print(EVIL, file=sys.stderr)
        logging.lastResort.emit(logging.LogRecord("n", 40, "p", 1, EVIL, (), None))  # type: ignore[union-attr]
    assert_harmless(wrapped.getvalue())
    assert wrapped.getvalue().count("[link=") == 2


def test_json_output_is_lossless_and_harmless() -> None:
    odd = episode(1.0).model_copy(update={"id": f"é{EVIL}\x7f\U000e0041"})
    text = json_text(odd)
    assert Episode.model_validate_json(text) == odd
    assert escape_controls(text) == text
    assert "é" in text


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
