"""What the live views of a run, an evaluation and a training have in common."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from support.episodes import make_episode, make_score

from collab.cli.live.episodes import Episodes
from collab.cli.live.evaluating import EvaluationReport, LiveEvaluation
from collab.cli.live.live import LiveView
from collab.cli.live.running import LiveRun, RunReport
from collab.cli.live.training import LiveTraining, TrainingReport
from collab.cli.live.views import Report, open_view
from collab.cli.screen.page import PlainPage
from collab.cli.screen.terminal import TerminalPage
from collab.records import Episode
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    AgentProgress,
    EpisodeFinished,
    RunStarted,
)
from collab.trainers.training.events import StepFinished, TrainingProgress

LIVE = [LiveRun, LiveEvaluation, LiveTraining]
WORK = [
    AgentActing(episode="t#0", turn=0, round=0, agent="a"),
    TrainingProgress(step=1, phase="sampling", done=0, total=4),
]


def terminal() -> TerminalPage:
    return TerminalPage(Console(file=io.StringIO(), force_terminal=True, width=80))


@pytest.fixture(params=LIVE)
def live(request: pytest.FixtureRequest) -> Iterator[LiveView[Any]]:
    view = request.param(terminal())
    yield view
    view.close()


def make_started(**changed: Any) -> RunStarted:
    given: dict[str, Any] = {
        "run": "r", "folder": None, "team": "pair", "agents": ("aux",), "models": {}, "turns": 1,
        "tasks": ("t",), "samples": 1, "seed": 0, "isolation": None, "versions": {},
    }  # fmt: skip
    return RunStarted(**given | changed)


def shown(view: LiveView[Any]) -> str:
    return "".join(part.plain for part in view.render().renderables if isinstance(part, Text))


def test_a_model_is_shown_while_it_is_loaded_and_no_longer(live: LiveView[Any]) -> None:
    live.loading("downloading", 5_000_000, 10_000_000)
    assert shown(live) == "model: downloading 5 of 10 MB"
    [work] = [event for event in WORK if isinstance(event, live.work)]
    live.see(work)
    assert "model: " not in shown(live)


def test_nothing_is_shown_of_a_model_after_the_end(live: LiveView[Any]) -> None:
    live.loading("loading", 0, 0)
    live.close()
    live.close()
    assert shown(live) == ""


@pytest.mark.parametrize("report", [RunReport, EvaluationReport, TrainingReport])
def test_a_report_says_each_stage_of_a_model_once(
    report: Callable[[PlainPage], Report], capsys: pytest.CaptureFixture[str]
) -> None:
    view = report(PlainPage(io.StringIO()))
    for done in (0, 1_000_000):
        view.loading("downloading", done, 10_000_000)
    view.close()
    assert capsys.readouterr().err == "model: downloading 10 MB\n"


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_where_stdout_leads_decides_the_view(
    monkeypatch: pytest.MonkeyPatch, on_a_terminal: bool
) -> None:
    page = terminal() if on_a_terminal else PlainPage(io.StringIO())
    monkeypatch.setattr("collab.cli.live.views.open_page", lambda: page)
    view = open_view(RunReport, LiveRun, json=False)
    view.close()
    assert type(view) is (LiveRun if on_a_terminal else RunReport)
    assert view.progress == on_a_terminal


def test_an_episode_that_failed_leaves_no_agent_at_work() -> None:
    episodes = Episodes(planned=2)
    for name in ("t#0", "t#1"):
        episodes.see(AgentActing(episode=name, turn=0, round=0, agent="aux"))
        episodes.see(AgentProgress(episode=name, agent="aux", new_tokens=5, text=""))
    assert episodes.tokens == 10
    episodes.see(EpisodeFinished(episode=Episode(id="t#0", task="t", team="pair", sample=0)))
    assert list(episodes.acting) == [("t#1", "aux")]
    assert episodes.text() == "1 of 2 episodes"


def test_progress_that_comes_late_is_not_counted_again() -> None:
    episodes = Episodes(planned=1)
    episode = make_episode("t", 0, make_score(solved=False))
    [decision, *_] = episode.turns[0].decisions
    episodes.see(AgentActing(episode="t#0", turn=0, round=0, agent=decision.agent))
    episodes.see(AgentActed(episode="t#0", turn=0, decision=decision))
    episodes.see(AgentProgress(episode="t#0", agent=decision.agent, new_tokens=5, text=""))
    assert episodes.tokens == decision.action.usage.new_tokens
    episodes.see(EpisodeFinished(episode=episode))
    assert episodes.text() == "1 of 1 episodes, 0 of 1 solved, return 1.00 of 4.00"


def test_the_text_of_the_only_episode_streams_as_it_comes() -> None:
    view = LiveRun(terminal())
    view.follow(make_started(tasks=("t",), samples=1))
    view.follow(AgentActing(episode="t#0", turn=0, round=0, agent="aux"))
    view.follow(AgentProgress(episode="t#0", agent="aux", new_tokens=2, text="def "))
    view.follow(AgentProgress(episode="t#0", agent="aux", new_tokens=4, text="aux():\n  pass"))
    assert shown(view) == "def aux():\n  pass"
    view.follow(AgentActing(episode="t#0", turn=0, round=0, agent="main"))
    view.follow(AgentProgress(episode="t#0", agent="main", new_tokens=2, text=""))
    assert shown(view) == "def aux():\n  pass", "an engine that tells no text shows none"
    view.close()


def test_what_streams_steers_no_terminal() -> None:
    page = terminal()
    view = LiveRun(page)
    view.follow(make_started(tasks=("t",), samples=1))
    view.follow(AgentActing(episode="t#0", turn=0, round=0, agent="aux"))
    view.follow(AgentProgress(episode="t#0", agent="aux", new_tokens=2, text="\x1b[2J[red]x"))
    view._live.refresh()
    view.close()
    assert isinstance(page.console.file, io.StringIO)
    assert "\\x1b[2J[red]x" in page.console.file.getvalue()


def test_a_training_tells_the_time_left_who_is_cut_off_and_a_sample(tmp_path: Path) -> None:
    episode = make_episode("t", 3, make_score(1.5, solved=False))
    (tmp_path / "episodes.jsonl").write_text(f"{{}}\n{episode.model_dump_json()}\n")
    view = LiveTraining(terminal())
    view.follow(make_started(agents=("aux", "main"), folder=str(tmp_path)))
    metrics = {"seconds": 30.0, "memory_gb": 1.25, "cost": 0.5, "return/mean": 3.5}
    metrics |= {"agent/aux/truncated": 0.69, "agent/main/truncated": 0.0, "return/maximum": 5.0}
    for step in (1, 2):
        view.follow(StepFinished(step=step, steps=6, metrics=metrics))
    view.follow(TrainingProgress(step=3, phase="sampling", done=1, total=4))
    told = shown(view)
    assert "sample t#3, return 1.50 of 4.00" in told
    assert "cut off at their limit: aux 69%" in told
    assert "in the order aux/main" in told
    assert "step 3: sampling 1 of 4 episodes, 0 s, about 2 min left, 1.2 GB, $1.0000" in told
    view.close()
