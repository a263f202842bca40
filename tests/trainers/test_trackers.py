"""Trackers get every step once, in one chart, also of a run that goes on.

Each is tried where it is installed, as the extra of its name is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.trainer_recipes import make_game

from collab.trainers import TrainingRun
from collab.trainers.training.trackers import PROJECT, Tracked

RETURN = "return/mean"


def test_a_run_keeps_its_key_wherever_it_goes_on(tmp_path: Path) -> None:
    first = Tracked("one", "2026-01-01T00:00:00+00:00", tmp_path, {}, 0)
    again = Tracked("one", "2026-01-01T00:00:00+00:00", tmp_path / "moved", {"a": 1}, 3)
    other = Tracked("one", "2026-01-01T00:00:01+00:00", tmp_path, {}, 0)
    assert first.key == again.key != other.key


def key_of(folder: Path) -> str:
    about = json.loads((folder / "run/run.json").read_text())
    return Tracked(about["run"], about["started"], folder, {}, 0).key


def of_trackio(folder: Path) -> list[int]:
    from trackio.sqlite_storage import SQLiteStorage

    logs = SQLiteStorage.get_logs(PROJECT, f"run-{key_of(folder)}")
    return [row["step"] for row in logs if RETURN in row]


def of_tensorboard(folder: Path) -> list[int]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "run/tensorboard"))
    found.Reload()
    return [event.step for event in found.Scalars(RETURN)]


def of_mlflow(folder: Path) -> list[int]:
    import mlflow

    client = mlflow.MlflowClient()
    [run] = client.search_runs([client.get_experiment_by_name(PROJECT).experiment_id])
    name = RETURN.replace("/", ".")
    return [metric.step for metric in client.get_metric_history(run.info.run_id, name)]


def train_twice(tracker: str, tiny: Path, folder: Path) -> None:
    """Two steps, and then two more."""
    for resume, steps in ((False, 2), (True, 4)):
        recipe = make_game(tiny, folder, steps=steps, report_to=[tracker])
        asyncio.run(TrainingRun(recipe, folder / "run", resume=resume).run())


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("name", "steps_of"),
    [
        ("trackio", of_trackio),
        ("tensorboard", of_tensorboard),
        ("mlflow", of_mlflow),
    ],
)
def test_a_run_that_goes_on_goes_on_in_its_chart(
    name: str,
    steps_of: Callable[[Path], list[int]],
    tiny_words: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip(name)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # its databases need more packages
    train_twice(name, tiny_words, tmp_path)
    assert steps_of(tmp_path) == [1, 2, 3, 4]


@pytest.mark.filterwarnings("default")
def test_a_run_that_goes_on_has_the_same_id_in_weights_and_biases(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train_twice("wandb", tiny_words, tmp_path)
    kept = [path.name for path in tmp_path.glob("run/wandb/offline-run-*/*.wandb")]
    assert kept == [f"run-{key_of(tmp_path)}.wandb"] * 2
