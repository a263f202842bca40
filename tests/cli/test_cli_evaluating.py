"""What a terminal shows while teams are evaluated."""

import io

import pytest
from rich.console import Console
from support.episodes import make_episode, make_score

from collab.cli.live import evaluating
from collab.cli.live.evaluating import LiveEvaluation
from collab.cli.screen.terminal import TerminalPage
from collab.evaluation.events import TeamStarted
from collab.records import Decision
from collab.runtime.events import AgentActed, AgentProgress, EpisodeFinished


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> LiveEvaluation:
    """A view that was opened 10 seconds ago."""
    clock = iter([0.0, 0.0])
    monkeypatch.setattr(evaluating.time, "monotonic", lambda: next(clock, 10.0))
    view = LiveEvaluation(TerminalPage(Console(file=io.StringIO(), force_terminal=True)))
    view.close()
    return view


def test_tokens_of_all_responses_make_the_speed(live: LiveEvaluation) -> None:
    episode = make_episode("t", 0, make_score(solved=True))
    decision: Decision = episode.turns[0].decisions[0]
    live.see(TeamStarted(label="coding", planned=12, recorded=4))
    live.see(AgentProgress(episode="t#0", agent="aux", new_tokens=7, text=""))
    live.see(AgentProgress(episode="t#1", agent="aux", new_tokens=20, text=""))
    live.see(AgentActed(episode="t#0", turn=0, decision=decision))
    live.see(EpisodeFinished(episode=episode))
    told = "coding 5 of 12 episodes, 1 of 1 solved, 3 tokens/s, 10 s"
    assert live._render().plain == told


def test_nothing_passes_where_there_are_no_tests(live: LiveEvaluation) -> None:
    live.see(TeamStarted(label="pair", planned=2, recorded=0))
    live.see(EpisodeFinished(episode=make_episode("t", 0, make_score())))
    assert "solved" not in live._render().plain
