"""Trackers that get the metrics besides `metrics.jsonl`; each is an extra, imported when named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from collab.distribution import install
from collab.errors import RecipeError
from collab.recipe.trainer import TrackerName

PROJECT = "collab"


class Tracker(Protocol):
    def log(self, metrics: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


class RunTracker:
    """Trackio and Weights & Biases, which share their interface."""

    def __init__(self, module: Any, run: str, folder: Path, config: Mapping[str, Any]) -> None:
        self._module = module
        options = {"dir": str(folder)} if module.__name__ == "wandb" else {}
        module.init(project=PROJECT, name=run, config=dict(config), **options)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._module.log(dict(metrics), step=step)

    def close(self) -> None:
        self._module.finish()


class TensorBoard:
    def __init__(self, module: Any, run: str, folder: Path, config: Mapping[str, Any]) -> None:  # noqa: ARG002
        self._writer = module.SummaryWriter(str(folder / "tensorboard"))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


_TRACKERS: dict[TrackerName, tuple[str, Callable[..., Tracker]]] = {
    "trackio": ("trackio", RunTracker),
    "wandb": ("wandb", RunTracker),
    "tensorboard": ("torch.utils.tensorboard", TensorBoard),
}


def check_trackers(names: Sequence[TrackerName]) -> None:
    """Raises RecipeError for a tracker that is not installed."""
    for name in names:
        found = find_spec(name)
        if found is None or found.origin is None:  # the latter is a folder that runs were left in
            raise RecipeError(
                f"trainer.report_to names '{name}', which is not installed; run: {install(name)}"
            )


class Trackers:
    """Those of one training run; none before `open`."""

    def __init__(self) -> None:
        self._opened: list[Tracker] = []

    def open(
        self, names: Sequence[TrackerName], run: str, folder: Path, config: Mapping[str, Any]
    ) -> None:
        """Open the trackers called `names`, which must be installed."""
        for module, make in (_TRACKERS[name] for name in names):
            self._opened.append(make(import_module(module), run, folder, config))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for tracker in self._opened:
            tracker.log(metrics, step)

    def close(self) -> None:
        for tracker in self._opened:
            tracker.close()
