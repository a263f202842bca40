"""The writing teams on the command line: no word about tests or programs."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("project")

SHORT = "My neighbour parks his van across my drive and I want it to stop without a quarrel."
LONG = (
    "A new family next door has two cars and a van, which blocks the drive on many evenings."
    " However, the father moves it whenever he is asked, so the writer would like a way between"
    " putting up with it and calling the police."
)


def test_run_and_show(collab, tmp_path: Path) -> None:
    out = tmp_path / "run"
    ran = collab("run", "tldr", "--task", "tldr/0-1", "--model", "echo", "--out", str(out))
    assert ran.status == 0
    assert "2 episodes; mean return 0.50 of 3.00" in ran.out
    shown = collab("show", str(out), "tldr/0")
    assert "scored, reward 0.50 of 3.00" in shown.out
    assert "content words from 'prompt'" in shown.out
    assert "solved" not in ran.out + shown.out


def test_a_part_without_weight_shows_its_value(collab) -> None:
    ran = collab("run", "tldr", "--task", "tldr/0", "--model", "echo")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("faithfulness")]
    assert line.split()[1:3] == ["94%", "-"]


def test_texts_are_scored(collab, project: Path) -> None:
    (project / "short.txt").write_text(SHORT)
    (project / "long.txt").write_text(LONG)
    (project / "both.txt").write_text(f"{SHORT}\n\n{LONG}\n")
    agents = ("--agent", "concise=short.txt", "--agent", "detailed=long.txt")
    (two,) = collab("score", "tldr/0", *agents, "--json").events
    (one,) = collab("score", "tldr/0", "both.txt", "--json").events
    assert two["solved"] is one["solved"] is None
    assert two["reward"] == one["reward"] > 2.0


def test_problems_are_listed_by_title(collab) -> None:
    listed = collab("tasks", "tldr").out
    assert "tldr/0   My neighbour keeps parking across my drive\n" in listed
    assert "splits: tldr/train (0-27), tldr/test (28-41)" in listed


def test_a_long_first_line_is_shortened(collab, project: Path) -> None:
    row = '{"word": "%s", "answer": "x"}\n' % ("very " * 100 + "long")
    (project / "posts.jsonl").write_text(2 * row)
    task = (project / "tasks" / "words.yaml").read_text().replace("words.jsonl", "../posts.jsonl")
    (project / "tasks" / "lengthy.yaml").write_text(task)
    first = collab("tasks", "lengthy").out.splitlines()[1]
    assert first.endswith("very ...")
    assert len(first) < 130
