"""Return is the sum over turns, reward is one turn's; each is shown with its largest."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from support.episodes import make_episode, make_score

from collab.cli.screen.episode import show_episode
from collab.cli.screen.page import TerminalPage
from collab.records import Episode

TWO = make_episode("t", 0, make_score(1.5), make_score(2.0), horizon=2)
EARLY = make_episode("t", 1, make_score(4.0, solved=True), horizon=2)
STOPPED = EARLY.model_copy(update={"when_solved": "stop"})


@pytest.fixture
def page() -> TerminalPage:
    return TerminalPage(Console(file=io.StringIO(), width=120))


def text_of(page: TerminalPage) -> str:
    stream = page.console.file
    assert isinstance(stream, io.StringIO)
    return " ".join(stream.getvalue().split())


@pytest.mark.parametrize(
    ("episode", "text"),
    [
        (TWO, "return 3.50 of 8.00"),
        (EARLY, "return 8.00 of 8.00: solved in turn 1 of 2, its reward counts for the rest"),
        (STOPPED, "return 4.00 of 8.00: solved in turn 1 of 2, the rest counts nothing"),
    ],
)
def test_an_episode_of_several_turns_ends_with_its_return(
    page: TerminalPage, episode: Episode, text: str
) -> None:
    show_episode(page, episode)
    assert text_of(page).endswith(text)
    assert "reward" in text_of(page)
