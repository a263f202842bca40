"""What the live views of a run, an evaluation and a training have in common."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
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
from collab.cli.screen.plain import PlainPage
from collab.cli.screen.terminal import TerminalPage
from collab.records import Episode
from collab.runtime.events import AgentActed, AgentActing, AgentProgress, EpisodeFinished
from collab.trainers.training.events import TrainingProgress

LIVE = [LiveRun, LiveEvaluation, LiveTraining]
WORK = [
    AgentProgress(episode="t#0", agent="a", new_tokens=1, text=""),
    TrainingProgress(step=1, phase="sampling", done=0, total=4),
]


def terminal() -> TerminalPage:
    return TerminalPage(Console(file=io.StringIO(), force_terminal=True, width=80))


@pytest.fixture(params=LIVE)
def live(request: pytest.FixtureRequest) -> Iterator[LiveView[Any]]:
    view = request.param(terminal())
    yield view
    view.close()


def shown(view: LiveView[Any]) -> str:
    return "".join(part.plain for part in view.render().renderables if isinstance(part, Text))


def test_a_model_is_shown_while_it_is_loaded_and_no_longer(live: LiveView[Any]) -> None:
    live.loading("download", 5_000_000, 10_000_000)
    assert shown(live) == "model: downloading 5 of 10 MB"
    [work] = [event for event in WORK if isinstance(event, live.work)]
    live.see(work)
    assert "model: " not in shown(live)


def test_nothing_is_shown_of_a_model_after_the_end(live: LiveView[Any]) -> None:
    live.loading("load", 0, 0)
    live.close()
    live.close()
    assert shown(live) == ""


@pytest.mark.parametrize("report", [RunReport, EvaluationReport, TrainingReport])
def test_a_report_says_each_stage_of_a_model_once(
    report: Callable[[PlainPage], Report], capsys: pytest.CaptureFixture[str]
) -> None:
    view = report(PlainPage(io.StringIO()))
    for done in (0, 1_000_000):
        view.loading("download", done, 10_000_000)
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
    assert episodes.text() == "1 of 1 episodes, 0 of 1 solved"
