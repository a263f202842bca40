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
    *_, line = live.lines()
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
    assert live._episodes.since is not None
    live._episodes.since -= 10
    told_now, _, memory = told(live).rpartition(", ")
    assert told_now == (
        "coding 5 of 12 episodes, 1 of 1 solved, return 1.00 of 4.00, 3 tokens/s, 10 s,"
        " about 70 s left"
    )
    assert memory.endswith(" GB")


def test_the_time_that_models_take_to_load_is_not_that_of_the_agents(live: LiveEvaluation) -> None:
    live.loading("loading", 0, 0)
    live.see(TeamStarted(label="coding", planned=12, recorded=4))
    assert live._episodes.since is None
    live.see(AgentActing(episode="t#0", turn=0, round=0, agent="aux"))
    live.see(AgentProgress(episode="t#0", agent="aux", new_tokens=7, text=""))
    assert "tokens/s" not in told(live), "nothing can be told of less than a second"


def test_agents_whose_answers_are_cut_off_are_named(live: LiveEvaluation) -> None:
    live.see(TeamStarted(label="pair", planned=8, recorded=0))
    cut = make_episode("t", 0, make_score()).turns[0].decisions[0]
    action = cut.action.model_copy(update={"finish_reason": "length"})
    for n in range(4):
        assert "cut off" not in told(live)
        live.see(
            AgentActed(episode=f"t#{n}", turn=0, decision=cut.model_copy(update={"action": action}))
        )
    told_now = f"100% of the responses of {cut.agent} are truncated at their limit"
    assert told(live) == f"warning: {told_now}; raise its max_new_tokens"


def test_now_and_then_a_response_is_shown_with_what_it_earned(live: LiveEvaluation) -> None:
    live.see(TeamStarted(label="pair", planned=3, recorded=0))
    for n in range(2):
        live.see(EpisodeFinished(episode=make_episode("t", n, make_score(1.5, solved=False))))
    shown = [line.plain for line in live.lines() if isinstance(line, Text)]
    assert shown[0] == "sample t#0, return 1.50 of 4.00", "the first one stays to be read"


def test_nothing_passes_where_there_are_no_tests(live: LiveEvaluation) -> None:
    live.see(TeamStarted(label="pair", planned=2, recorded=0))
    live.see(EpisodeFinished(episode=make_episode("t", 0, make_score())))
    assert "solved" not in told(live)
