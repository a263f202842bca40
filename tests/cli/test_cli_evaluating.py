"""What a terminal shows while teams are evaluated."""

import io

import pytest
from rich.console import Console
from rich.text import Text
from support.episodes import make_episode, make_score

from collab.cli.live.evaluating import LiveEvaluation
from collab.cli.screen.terminal import TerminalPage
from collab.evaluation.events import TeamStarted
from collab.records import Decision
from collab.runtime.events import AgentActed, AgentActing, AgentProgress, EpisodeFinished


@pytest.fixture
def live() -> LiveEvaluation:
    view = LiveEvaluation(TerminalPage(Console(file=io.StringIO(), force_terminal=True)))
    view.close()
    return view


def told(live: LiveEvaluation) -> str:
    [line] = live.lines()
    assert isinstance(line, Text)
    return line.plain


def test_tokens_of_all_responses_make_the_speed(live: LiveEvaluation) -> None:
    episode = make_episode("t", 0, make_score(solved=True))
    decision: Decision = episode.turns[0].decisions[0]
    live.see(TeamStarted(label="coding", planned=12, recorded=4))
    for place in ("t#0", "t#1"):
        live.see(AgentActing(episode=place, turn=0, round=0, agent="aux"))
    live.see(AgentProgress(episode="t#0", agent="aux", new_tokens=7, text=""))
    live.see(AgentProgress(episode="t#1", agent="aux", new_tokens=20, text=""))
    live.see(AgentActed(episode="t#0", turn=0, decision=decision))
    live.see(EpisodeFinished(episode=episode))
    live._episodes.since -= 10
    assert told(live) == "coding 5 of 12 episodes, 1 of 1 solved, 3 tokens/s, 10 s"


def test_nothing_passes_where_there_are_no_tests(live: LiveEvaluation) -> None:
    live.see(TeamStarted(label="pair", planned=2, recorded=0))
    live.see(EpisodeFinished(episode=make_episode("t", 0, make_score())))
    assert "solved" not in told(live)
