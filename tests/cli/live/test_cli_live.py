"""Live views of a run, training, evaluation and study."""

import io
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from support.episodes import make_episode, make_score, make_started

from collab.cli.live.progress import LiveView
from collab.cli.live.running import open_view
from collab.cli.live.view import TextView
from collab.cli.screen.page import PlainPage, TerminalPage
from collab.evaluation.results import TeamStarted
from collab.records import Decision
from collab.runtime.events import AgentActed, AgentActing, AgentProgress, EpisodeFinished
from collab.study.results import CellFinished, CellStarted
from collab.trainers.training.events import StepFinished, TrainingProgress

TEAM = TeamStarted(label="coding", planned=12, recorded=4)


def terminal() -> TerminalPage:
    return TerminalPage(Console(file=io.StringIO(), force_terminal=True, width=80))


@pytest.fixture
def live() -> Iterator[LiveView]:
    view = LiveView(terminal())
    yield view
    view.close()


def lines(view: LiveView) -> str:
    """Render the live part."""
    console = Console(file=io.StringIO(), width=160, height=40)
    console.print(view.bars.get_renderable())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def acting(episode: str = "t#0", agent: str = "aux") -> AgentActing:
    return AgentActing(episode=episode, turn=0, round=0, agent=agent)


def progress(tokens: int, text: str = "", episode: str = "t#0", agent: str = "aux") -> Any:
    return AgentProgress(episode=episode, agent=agent, new_tokens=tokens, text=text)


def acted(episode: str, decision: Decision) -> AgentActed:
    return AgentActed(episode=episode, turn=0, decision=decision)


@pytest.mark.parametrize(
    "work", [acting(), TrainingProgress(step=1, phase="sampling", done=0, total=4)]
)
def test_loading_line_disappears_when_work_begins(live: LiveView, work: Any) -> None:
    live.show_loading("downloading", 5_000_000, 10_000_000)
    assert "model: downloading" in lines(live)
    assert "5 of 10 MB" in lines(live)
    live.show(work)
    assert "model: " not in lines(live)


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_stdout_decides_the_view(monkeypatch: pytest.MonkeyPatch, on_a_terminal: bool) -> None:
    page = terminal() if on_a_terminal else PlainPage(io.StringIO())
    monkeypatch.setattr("collab.cli.live.running.open_page", lambda: page)
    view = open_view(json=False)
    view.close()
    assert type(view) is (LiveView if on_a_terminal else TextView)
    assert view.progress == on_a_terminal


def test_late_progress_is_not_counted_twice(live: LiveView) -> None:
    live.show(make_started())
    episode = make_episode("t", 0, make_score(solved=False))
    [decision, *_] = episode.turns[0].decisions
    live.show(acting(agent=decision.agent))
    live.show(acted("t#0", decision))
    live.show(progress(5, agent=decision.agent))
    assert live.counts.tokens == decision.action.usage.new_tokens
    live.show(EpisodeFinished(episode=episode))
    assert "1 of 1 episode, 0 of 1 solved, return 1.00 of 4.00" in lines(live)


def test_speed_counts_tokens_of_all_responses(live: LiveView) -> None:
    episode = make_episode("t", 0, make_score(solved=True))
    live.show(TEAM)
    for place in ("t#0", "t#1"):
        live.show(acting(place))
    live.show(progress(7))
    live.show(progress(20, episode="t#1"))
    live.show(acted("t#0", episode.turns[0].decisions[0]))
    assert live.counts.started is not None
    live.counts.started = time.monotonic() - 10
    live.show(EpisodeFinished(episode=episode))
    text = "5 of 12 episodes, 1 of 1 solved, return 1.00 of 4.00, 3 tokens/s"
    assert text in lines(live)
    assert lines(live).startswith("coding ")


def test_streamed_text_cannot_control_the_terminal(live: LiveView) -> None:
    live.show(make_started())
    live.show(acting())
    live.show(progress(2, "\x1b[2J[red]x"))
    assert "\\x1b[2J[red]x" in lines(live)


def test_training_view_shows_steps_and_cost(live: LiveView) -> None:
    live.show(make_started(agents=("aux", "main"), samples=4))
    for step in (1, 2):
        live.show(StepFinished(step=step, steps=6, metrics={"seconds": 30.0, "cost": 0.5}))
    live.show(TrainingProgress(step=3, phase="sampling", done=1, total=4))
    assert "2 of 6 steps, $1.0000" in lines(live)
    assert "step 3: sampling" in lines(live)
    assert "1 of 4 episodes" in lines(live)
    live.show(TrainingProgress(step=3, phase="update"))
    assert "episodes" not in lines(live)
    assert live.bars.tasks[-1].total is None
    live.show(StepFinished(step=3, steps=6, metrics={}, tokens=500, of_tokens=2000))
    assert "500 of 2,000 tokens" in lines(live)


@pytest.mark.parametrize(
    ("step", "start"), [(0, "held out, before training"), (3, "held out, after step 3")]
)
def test_evaluation_view_names_the_training_step(live: LiveView, step: int, start: str) -> None:
    live.show(TrainingProgress(step=step, phase="evaluation", done=2, total=3))
    assert start in lines(live)
    live.show(TrainingProgress(step=4, phase="sampling", done=2, total=3))
    assert start not in lines(live)
    assert "step 4: sampling" in lines(live)


def test_a_study_shows_the_cells_in_progress(live: LiveView) -> None:
    live.show(CellStarted(cell="game-magrpo-seed-0", resumed=False))
    assert "game-magrpo-seed-0" in lines(live)
    live.show(CellFinished(cell="game-magrpo-seed-0", status="done", seconds=1.0))
    assert "game-magrpo-seed-0" not in lines(live)


def test_report_prints_each_loading_stage_once(capsys: pytest.CaptureFixture[str]) -> None:
    view = TextView(PlainPage(io.StringIO()))
    for done in (0, 1_000_000):
        view.show_loading("downloading", done, 10_000_000)
    view.close()
    assert capsys.readouterr().err == "model: downloading 10 MB\n"
