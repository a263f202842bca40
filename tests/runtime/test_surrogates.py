"""Half of a surrogate pair, which no file can hold, fails its episode and not the run."""

from pathlib import Path
from typing import Any

import pytest

import collab
from collab.errors import CollabError
from collab.rewards import Part
from collab.runs.about import read_about

HALF = "\ud800"


def raising(_: Any) -> float:
    raise ValueError(HALF)


DOORS: dict[str, dict[str, Any]] = {
    "template": {"agents": {"a": collab.Agent(prompt="{{ '%c'|format(55296) }}")}},
    "parser": {"agents": {"a": collab.Agent(parser=lambda _: HALF)}},
    "join": {"join": lambda _, __: HALF},
    "reason": {"rewards": [lambda _: Part(1.0, HALF)]},
    "exception": {"rewards": [raising]},
    "feedback": {"turns": 2, "feedback": [lambda _: HALF]},
}


@pytest.mark.parametrize("door", DOORS)
def test_half_of_a_surrogate_pair_fails_only_its_episode(tmp_path: Path, door: str) -> None:
    parts = {"agents": {"a": collab.Agent()}, "rewards": [lambda _: 1.0], **DOORS[door]}
    team = collab.Team(name="solo", model="echo", **parts)
    run = team.run([{"prompt": "a"}, {"prompt": "b"}], out=tmp_path / "run")
    assert [bool(episode.failure) for episode in run.episodes] == [True, True]
    assert len(list(collab.read_episodes(tmp_path / "run"))) == 2


def test_command_line_that_is_not_utf_8_is_recorded_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["program.py", "\udcff.txt"])
    team = collab.Team(name="solo", agents={"a": collab.Agent()}, model="echo")
    team.run([{"prompt": "a"}], out=tmp_path / "run")
    assert read_about(tmp_path / "run")["command"] == ["program.py", "\\udcff.txt"]
    scored = collab.load(team, task=[{"prompt": "a"}], rewards=[lambda _: 1.0])
    assert collab.evaluate(scored, out=tmp_path / "eval").command[1] == "\\udcff.txt"


def test_long_reason_is_cut() -> None:
    team = collab.Team(
        name="solo",
        agents={"a": collab.Agent()},
        model="echo",
        rewards=[lambda _: Part(1.0, "x" * 10**6)],
    )
    score = team.run([{"prompt": "a"}]).episode.score
    assert score is not None
    assert len(score.parts[0].reason) < 20_000


def test_row_with_half_of_a_surrogate_pair_is_refused() -> None:
    team = collab.Team(name="solo", agents={"a": collab.Agent()}, model="echo", rewards=[raising])
    with pytest.raises(CollabError, match=r"^the task passed in Python, row \d+: .* half of a"):
        team.run([{"id": HALF, "prompt": "a"}])
