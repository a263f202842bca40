"""Recorded runs can be reproduced: the same samples, rewards and updates."""

import asyncio
import json
from pathlib import Path

import pytest
from support.digest import CASES, digest, make_case

from collab.trainers import TrainingRun

RECORDED = Path(__file__).parents[1] / "recorded"


@pytest.mark.parametrize("name", CASES)
def test_recorded_training_is_reproduced(tiny_words: Path, tmp_path: Path, name: str) -> None:
    recipe = make_case(tiny_words, tmp_path, name)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    found = digest(tmp_path / "run")
    wanted = json.loads((RECORDED / f"{name}.json").read_text())
    assert [e["id"] for e in found["episodes"]] == [e["id"] for e in wanted["episodes"]]
    for now, then in zip(found["episodes"], wanted["episodes"], strict=True):
        assert now["rewards"] == then["rewards"]
        assert [d[:4] for d in now["decisions"]] == [d[:4] for d in then["decisions"]]
        for here, there in zip(now["decisions"], then["decisions"], strict=True):
            assert here[4] == pytest.approx(there[4], abs=2e-4)
    for now, then in zip(found["gradients"], wanted["gradients"], strict=True):
        assert now == pytest.approx(then, rel=1e-4)
