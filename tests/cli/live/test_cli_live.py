"""The views of a run, a training, an evaluation and a study while they go on."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.episodes import make_episode, make_score

from collab.cli.live.progress import Progress
from collab.cli.live.view import LiveReport, Report, open_view
from collab.cli.screen.page import PlainPage, TerminalPage
from collab.evaluation.results import TeamStarted
from collab.records import Decision
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    AgentProgress,
    EpisodeFinished,
    RunStarted,
)
from collab.trainers.training.events import StepFinished, TrainingProgress

TEAM = TeamStarted(label="coding", planned=12, recorded=4)


def terminal() -> TerminalPage:
    return TerminalPage(Console(file=io.StringIO(), force_terminal=True, width=80))


@pytest.fixture
def live() -> Iterator[LiveReport]:
    view = LiveReport(terminal())
    yield view
    view.close()


def make_started(**changed: Any) -> RunStarted:
    values: dict[str, Any] = {
        "run": "r", "folder": None, "team": "pair", "agents": ("aux",), "models": {}, "turns": 1,
        "tasks": ("t",), "samples": 1, "seed": 0, "isolation": None, "versions": {},
    }  # fmt: skip
    return RunStarted(**values | changed)


def lines(work: Progress) -> list[str]:
    return [line.plain for line in work.lines(80, 40)]


def acting(episode: str = "t#0", agent: str = "aux") -> AgentActing:
    return AgentActing(episode=episode, turn=0, round=0, agent=agent)


def progress(tokens: int, text: str = "", episode: str = "t#0", agent: str = "aux") -> Any:
    return AgentProgress(episode=episode, agent=agent, new_tokens=tokens, text=text)


def acted(episode: str, decision: Decision) -> AgentActed:
    return AgentActed(episode=episode, turn=0, decision=decision)


@pytest.mark.parametrize(
    "work", [acting(), TrainingProgress(step=1, phase="sampling", done=0, total=4)]
)
def test_a_model_is_shown_while_it_is_loaded_and_no_longer(live: LiveReport, work: Any) -> None:
    live.loading("downloading", 5_000_000, 10_000_000)
    assert lines(live.work) == ["model: downloading 5 of 10 MB"]
    live.see(work)
    assert not any("model: " in line for line in lines(live.work))


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_stdout_decides_the_view(monkeypatch: pytest.MonkeyPatch, on_a_terminal: bool) -> None:
    page = terminal() if on_a_terminal else PlainPage(io.StringIO())
    monkeypatch.setattr("collab.cli.live.view.open_page", lambda: page)
    view = open_view(json=False)
    view.close()
    assert type(view) is (LiveReport if on_a_terminal else Report)
    assert view.progress == on_a_terminal


def test_progress_that_comes_late_is_not_counted_again() -> None:
    work = Progress()
    work.see(make_started())
    episode = make_episode("t", 0, make_score(solved=False))
    [decision, *_] = episode.turns[0].decisions
    work.see(acting(agent=decision.agent))
    work.see(acted("t#0", decision))
    work.see(progress(5, agent=decision.agent))
    assert work.episodes.tokens == decision.action.usage.new_tokens
    work.see(EpisodeFinished(episode=episode))
    assert lines(work)[-1].startswith("1 of 1 episode, 0 of 1 solved, return 1.00 of 4.00")


def test_tokens_of_all_responses_make_the_speed() -> None:
    work = Progress()
    episode = make_episode("t", 0, make_score(solved=True))
    work.see(TEAM)
    for place in ("t#0", "t#1"):
        work.see(acting(place))
    work.see(progress(7))
    work.see(progress(20, episode="t#1"))
    work.see(acted("t#0", episode.turns[0].decisions[0]))
    work.see(EpisodeFinished(episode=episode))
    assert work.episodes.since is not None
    work.episodes.since = time.monotonic() - 10
    text, _, memory = lines(work)[-1].rpartition(", ")
    assert text == (
        "coding 5 of 12 episodes, 1 of 1 solved, return 1.00 of 4.00, 3 tokens/s, 10 s,"
        " about 70 s left"
    )
    assert memory.endswith(" GB")
    work.watching = True
    assert not lines(work)[-1].endswith(" GB"), "another process holds the models"


def test_a_streamed_text_cannot_steer_the_terminal() -> None:
    page = terminal()
    view = LiveReport(page)
    view.see(make_started())
    view.see(acting())
    view.see(progress(2, "\x1b[2J[red]x"))
    view._live.refresh()
    view.close()
    assert isinstance(page.console.file, io.StringIO)
    assert "\\x1b[2J[red]x" in page.console.file.getvalue()


def test_a_training_shows_the_time_left_truncated_agents_and_a_sample(tmp_path: Path) -> None:
    episode = make_episode("t", 3, make_score(1.5, solved=False))
    (tmp_path / "episodes.jsonl").write_text(f"{{}}\n{episode.model_dump_json()}\n")
    work = Progress()
    work.see(make_started(agents=("aux", "main"), folder=str(tmp_path), samples=4))
    metrics = {"seconds": 30.0, "memory_gb": 1.25, "cost": 0.5, "return/mean": 3.5}
    metrics |= {"agent/aux/truncated": 0.69, "agent/main/truncated": 0.0, "return/maximum": 5.0}
    for step in (1, 2):
        work.see(StepFinished(step=step, steps=6, metrics=metrics))
    work.see(TrainingProgress(step=3, phase="sampling", done=1, total=4))
    text = "\n".join(lines(work))
    assert "sample t#3, return 1.50 of 4.00" in text
    assert "69% of the responses of aux are truncated" in text
    assert "step 3: sampling 1 of 4 episodes, 0 s, about 2 min left, 1.2 GB, $1.0000" in text


@pytest.mark.parametrize(
    ("step", "start"), [(0, "held out, before training:"), (3, "held out, after step 3:")]
)
def test_an_evaluation_of_a_training_says_after_which_step(step: int, start: str) -> None:
    work = Progress()
    work.see(TrainingProgress(step=step, phase="evaluation", done=2, total=3))
    assert lines(work)[0].startswith(f"{start} 2 of 3 episodes, ")
    work.see(TrainingProgress(step=4, phase="sampling", done=2, total=3))
    assert lines(work)[0].startswith("step 4: sampling 2 of 3 episodes, ")


def test_a_report_says_each_stage_of_a_model_once(capsys: pytest.CaptureFixture[str]) -> None:
    view = Report(PlainPage(io.StringIO()))
    for done in (0, 1_000_000):
        view.loading("downloading", done, 10_000_000)
    view.close()
    assert capsys.readouterr().err == "model: downloading 10 MB\n"


def test_agents_with_many_truncated_responses_are_named() -> None:
    work = Progress()
    work.see(TEAM)
    decision = make_episode("t", 0, make_score()).turns[0].decisions[0]
    action = decision.action.model_copy(update={"finish_reason": "length"})
    for n in range(4):
        assert not any("truncated" in line for line in lines(work))
        work.see(acting(f"t#{n}"))
        work.see(acted(f"t#{n}", decision.model_copy(update={"action": action})))
    text = f"100% of the responses of {decision.agent} are truncated at their limit"
    assert lines(work)[-1] == f"warning: {text}; raise its max_new_tokens"
