"""Made-up runs to report on."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.report_runs import add_held_out, make_episode, make_run, make_training


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A run of four problems, two samples each."""
    episodes = [
        make_episode(n, task=f"numbers/{n // 2}", group=n // 2, sample=n % 2) for n in range(8)
    ]
    return make_run(tmp_path / "played", episodes, samples=2)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    return make_training(tmp_path / "trained")


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    """A training run with the episodes of its evaluations."""
    return add_held_out(make_training(tmp_path / "held_out"))
