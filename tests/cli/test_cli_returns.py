"""Return is the sum over turns, reward is one turn's; each is shown with its largest."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from support.episodes import make_episode, make_score

from collab.cli.screen.episode import show_episode
from collab.cli.screen.page import TerminalPage
from collab.records import Episode

TWO = make_episode("t", 0, make_score(1.5), make_score(2.0), horizon=2)
EARLY = make_episode("t", 1, make_score(4.0, solved=True), horizon=2)
STOPPED = EARLY.model_copy(update={"when_solved": "stop"})
OLD = make_episode("t", 2, make_score(4.0, solved=True))


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


def test_show_lists_returns_and_turns(collab, tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    file.write_text("".join(e.model_dump_json() + "\n" for e in (TWO, EARLY, OLD)))
    two, early, old = (line.split() for line in collab("show", str(file)).out.splitlines()[1:])
    assert two[3:5] == ["3.50", "8.00"]
    assert early[3:5] == ["8.00", "8.00"]
    assert "1 of 2" in " ".join(early)
    assert old[3:5] == ["4.00", "4.00"]


def test_one_turn_of_several_is_shown_without_a_return(collab, tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    file.write_text(TWO.model_dump_json() + "\n")
    assert "return 3.50 of 8.00" in collab("show", str(file), "t").out
    assert "return" not in collab("show", str(file), "t", "--turn", "2").out
