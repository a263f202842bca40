"""A run folder of an earlier version can be read, shown and replayed."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collab.cli.app import app
from collab.records import read_episodes

RECORDED = Path(__file__).parents[1] / "recorded"


def test_recorded_run_is_read() -> None:
    [episode] = read_episodes(RECORDED / "run")
    assert episode.solved
    rewards = [turn.score.reward for turn in episode.turns if turn.score]
    assert rewards == pytest.approx([11 / 6, 4.0])


@pytest.mark.parametrize("command", ["show", "replay", "report"])
def test_recorded_run_is_shown_and_replayed(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RECORDED / "run", folder)
    result = CliRunner().invoke(app, [command, str(folder)])
    assert result.exit_code == 0, result.output
