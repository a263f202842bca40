"""Trackers get every step once, in one chart, including steps of resumed runs.

Each tracker is tested if it is installed.
"""

import asyncio
import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from support.episodes import OBSERVED, make_score
from support.trainer_recipes import make_game

from collab.recipe.trainer import TrackerName
from collab.records import Action, Decision, Episode, Turn
from collab.runs.atomic import Lock
from collab.trainers import TrainingRun
from collab.trainers.training import trackers
from collab.trainers.training.trackers import COLUMNS, PROJECT, SAMPLES, TrackedRun, Trackers

RETURN = "return/mean"


def test_moved_run_keeps_its_key(tmp_path: Path) -> None:
    first = TrackedRun("one", "2026-01-01T00:00:00+00:00", tmp_path, {}, 0)
    again = TrackedRun("one", "2026-01-01T00:00:00+00:00", tmp_path / "moved", {"a": 1}, 3)
    other = TrackedRun("one", "2026-01-01T00:00:01+00:00", tmp_path, {}, 0)
    assert first.key == again.key != other.key


def key_of(folder: Path) -> str:
    about = json.loads((folder / "run/run.json").read_text())
    return TrackedRun(about["run"], about["started"], folder, {}, 0).key


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
    """Train two steps, then two more."""
    for resume, steps in ((False, 2), (True, 4)):
        recipe = make_game(tiny, folder, steps=steps, report_to=[tracker])
        asyncio.run(TrainingRun(recipe, folder / "run", resume=resume).run())


class FakeTracker:
    """A stand-in for a tracker's module and its objects; records all calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def record(*args: Any, **named: Any) -> Any:
            self.calls.append((name, args, named))
            return named if name == "Table" else [] if name == "search_runs" else self

        return record

    def shown(self, name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [(args, named) for called, args, named in self.calls if called == name]


def episode_of(text: str, reward: float) -> Episode:
    decision = Decision(agent="aux", observation=OBSERVED, action=Action(text=text))
    turn = Turn(index=0, decisions=(decision,), score=make_score(reward))
    return Episode(id="words/0#0", task="words/0", team="pair", turns=(turn,))


@pytest.mark.parametrize("name", ["trackio", "wandb", "tensorboard", "mlflow"])
def test_trackers_get_some_responses_with_their_returns(
    name: TrackerName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = FakeTracker()
    monkeypatch.setattr(trackers, "import_module", lambda _: module)
    opened = Trackers(2)
    opened.open([name], TrackedRun("one", "now", tmp_path, {}, 0))
    good, bad = (episode_of("b's | <i>*x*</i>\nc", reward) for reward in (1.0, 0.0))
    middle = episode_of("middle", 0.5)
    for step in (1, 2, 10):
        opened.show([[bad, middle], [good]], step)
    if name == "tensorboard":
        (title, text, step), _ = module.shown("add_text")[0]
        assert (title, step) == (SAMPLES, 1)
        assert len(text.splitlines()) == 4
        marked = next(line for line in text.splitlines() if line.endswith("|1.000|"))
        assert "<i>" not in marked
        assert "*" not in marked
        assert "|b's | <i>*x*</i><br>c|1.000|" in unescape(marked)
        assert len(module.shown("add_text")) == 2
        return
    if name == "mlflow":
        tables = [args[0] for args, _ in module.shown("log_dict")[1:]]  # skip the recipe
        assert [args[1] for args, _ in module.shown("log_dict")][1:] == [
            "samples/step-1.json",
            "samples/step-10.json",
        ]
    else:
        tables = [args[0][SAMPLES] for args, _ in module.shown("log")]
        assert [named["step"] for _, named in module.shown("log")] == [1, 10]
    assert tables[0]["columns"] == list(COLUMNS)
    assert [row[-1] for row in tables[0]["data"]] == [1.0, 0.0]
    assert tables[1]["data"][0][:1] == [10]


def test_no_response_is_sent_if_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = FakeTracker()
    monkeypatch.setattr(trackers, "import_module", lambda _: module)
    opened = Trackers(0)
    opened.open(["wandb"], TrackedRun("one", "now", tmp_path, {}, 0))
    opened.show([[episode_of("secret", 1.0)]], 1)
    assert [name for name, _, _ in module.calls] == ["init"]


def test_wandb_leaves_no_link_out_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Linking(FakeTracker):
        def init(self, dir: str, **_: Any) -> None:
            logs = Path(dir) / "wandb" / "offline-run-1" / "logs"
            logs.mkdir(parents=True)
            (logs.parents[1] / "latest-run").symlink_to("offline-run-1")
            (logs / "debug-core.log").symlink_to(tmp_path / "core.log")

    monkeypatch.setattr(trackers, "import_module", lambda _: Linking())
    folder = tmp_path / "run"
    Trackers(0).open(["wandb"], TrackedRun("one", "now", folder, {}, 0))
    Lock(folder).release()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("name", "steps_of"),
    [("trackio", of_trackio), ("tensorboard", of_tensorboard), ("mlflow", of_mlflow)],
)
def test_resumed_run_continues_its_chart(
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
def test_resumed_run_keeps_its_id_in_wandb(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train_twice("wandb", tiny_words, tmp_path)
    files = [path.name for path in tmp_path.glob("run/wandb/offline-run-*/*.wandb")]
    assert files == [f"run-{key_of(tmp_path)}.wandb"] * 2
