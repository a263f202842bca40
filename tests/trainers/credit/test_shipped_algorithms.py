"""Algorithms that score more joint actions train a team and report their measures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.trainer_recipes import make_game, steps_of

from collab.trainers.training.run import TrainingRun

TRAINERS = Path(__file__).parents[3] / "trainers"
LABELS = ("name", "description", "extends")


def shipped(name: str) -> dict[str, Any]:
    settings = yaml.safe_load((TRAINERS / f"{name}.yaml").read_text())
    return {key: value for key, value in settings.items() if key not in LABELS}


@pytest.mark.parametrize(
    ("name", "metric"), [("cross", "credit/a/crossed"), ("removal", "credit/a/contribution")]
)
def test_rule_trains_a_team_and_reports_its_measures(
    name: str, metric: str, tiny_words: Path, tmp_path: Path
) -> None:
    settings = shipped(name) if (TRAINERS / f"{name}.yaml").exists() else {"algorithm": name}
    settings |= {"group_size": 4, "tasks_per_step": 1, "steps": 3}
    asyncio.run(TrainingRun(make_game(tiny_words, tmp_path, **settings), tmp_path / "run").run())
    rows = steps_of(tmp_path / "run")
    assert len(rows) == 3
    assert all(metric in row for row in rows)
    assert any(row["groups/dead"] < 1 for row in rows)
    assert any(row.get("joint_actions/scored", 0) > 0 for row in rows)
    for row in rows:
        waited, seconds = row.get("joint_actions/waited", 0), row.get("joint_actions/seconds", 0)
        assert 0 <= waited <= seconds
