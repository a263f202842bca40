"""The writing teams on the command line: their output never mentions tests or programs."""

from pathlib import Path

import pytest
from support.command_line import Collab

pytestmark = pytest.mark.usefixtures("project")

SHORT = "My neighbour parks his van across my drive and I want it to stop without a quarrel."
LONG = (
    "A new family next door has two cars and a van, which blocks the drive on many evenings."
    " However, the father moves it whenever he is asked, so the writer would like a way between"
    " putting up with it and calling the police."
)


def test_texts_are_scored(collab: Collab, project: Path) -> None:
    (project / "short.txt").write_text(SHORT)
    (project / "long.txt").write_text(LONG)
    (project / "both.txt").write_text(f"{SHORT}\n\n{LONG}\n")
    agents = ("--agent", "concise=short.txt", "--agent", "detailed=long.txt")
    (two,) = collab("score", "tldr/0", *agents, "--json").events
    (one,) = collab("score", "tldr/0", "both.txt", "--json").events
    assert two["solved"] is one["solved"] is None
    assert two["reward"] == one["reward"] > 2.0
