"""Trackers that receive metrics and sample responses. Each is an extra, imported when used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from collab.distribution import install_command
from collab.errors import RecipeError
from collab.recipe.trainer import TrackerName
from collab.records import Episode

PROJECT = "collab"

SAMPLES = "samples"
"""Name of the table of responses."""
COLUMNS = ("step", "episode", "turn", "agent", "response", "return")
TABLE_INTERVAL = 10
"""Number of steps between two tables of responses. The first step also has a table."""
MAX_RESPONSE_CHARACTERS = 4000
"""Maximum number of characters of a response in a table."""

SampleRow = tuple[int, str, int, str, str, float]
"""A response, by column."""


@dataclass(frozen=True)
class TrackedRun:
    """Description of a run for trackers."""

    name: str
    started: str
    """Start time of the run, unchanged when it continues, also in another folder."""
    folder: Path
    config: Mapping[str, Any]
    step: int
    """Step from which it continues, or 0 for a new run."""

    @property
    def key(self) -> str:
        """Key that distinguishes the run from others with the same name."""
        return sha256(f"{self.name} {self.started}".encode()).hexdigest()[:12]


class Trackio:
    """Records metrics, and tables of sample responses, in Trackio. Other trackers do the same."""

    def __init__(self, module: Any, run: TrackedRun) -> None:
        self._module = module
        name = f"{run.name}-{run.key}"  # a resumed run finds it by this name
        module.init(project=PROJECT, name=name, config=dict(run.config), resume="allow")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._module.log(dict(metrics), step=step)

    def show(self, rows: Sequence[SampleRow], step: int) -> None:
        table = self._module.Table(columns=list(COLUMNS), data=[list(row) for row in rows])
        self._module.log({SAMPLES: table}, step=step)

    def close(self) -> None:
        self._module.finish()


class WeightsAndBiases(Trackio):
    def __init__(self, module: Any, run: TrackedRun) -> None:
        self._module = module
        module.init(
            project=PROJECT,
            name=run.name,
            id=run.key,
            resume="allow",
            config=dict(run.config),
            dir=str(run.folder),
        )
        # It links to a log elsewhere. A folder with such a link is not written again.
        for link in filter(Path.is_symlink, run.folder.glob("wandb/*run-*/logs/*")):
            link.unlink()


class TensorBoard:
    def __init__(self, module: Any, run: TrackedRun) -> None:
        # A resumed run repeats the steps after the checkpoint. Each is shown once.
        again = {"purge_step": run.step + 1} if run.step else {}
        self._writer = module.SummaryWriter(str(run.folder / "tensorboard"), **again)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def show(self, rows: Sequence[SampleRow], step: int) -> None:
        self._writer.add_text(SAMPLES, format_table(rows), step)

    def close(self) -> None:
        self._writer.close()


class MLflow:
    def __init__(self, module: Any, run: TrackedRun) -> None:
        self._module = module
        experiment = module.set_experiment(PROJECT).experiment_id
        tag = f"tags.collab = '{run.key}'"
        runs = module.MlflowClient().search_runs([experiment], tag, max_results=1)
        if runs:
            module.start_run(run_id=runs[0].info.run_id)
        else:
            module.start_run(run_name=run.name, tags={"collab": run.key})
            module.log_dict(dict(run.config), "recipe.json")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        # In a file store, `a` and `a/b` cannot both be metrics.
        self._module.log_metrics({k.replace("/", "."): v for k, v in metrics.items()}, step=step)

    def show(self, rows: Sequence[SampleRow], step: int) -> None:
        # The same format as `log_table`, which would need pandas.
        table = {"columns": list(COLUMNS), "data": [list(row) for row in rows]}
        self._module.log_dict(table, f"{SAMPLES}/step-{step}.json")

    def close(self) -> None:
        self._module.end_run()


Tracker = Trackio | TensorBoard | MLflow

_TRACKERS: dict[TrackerName, tuple[str, Callable[..., Tracker]]] = {
    "trackio": ("trackio", Trackio),
    "wandb": ("wandb", WeightsAndBiases),
    "tensorboard": ("torch.utils.tensorboard", TensorBoard),
    "mlflow": ("mlflow", MLflow),
}


def check_trackers(names: Sequence[TrackerName]) -> None:
    """Check that every tracker's package is installed."""
    for name in names:
        module = find_spec(name)
        if module is None or module.origin is None:  # without an origin, it is a folder of runs
            raise RecipeError(
                f"trainer.report_to names '{name}', which is not installed; run:"
                f" {install_command(name)}"
            )


class Trackers:
    """The trackers of one training run, or none before `open`."""

    def __init__(self, samples: int) -> None:
        """Set up trackers. `samples` is the number of episodes per table."""
        self._opened: list[Tracker] = []
        self._samples = samples

    def open(self, names: Sequence[TrackerName], run: TrackedRun) -> None:
        """Open the trackers called `names`. A resumed run continues its earlier record in each."""
        for module, make in (_TRACKERS[name] for name in names):
            self._opened.append(make(import_module(module), run))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        for tracker in self._opened:
            tracker.log(metrics, step)

    def show(self, groups: Sequence[Sequence[Episode]], step: int) -> None:
        """Show some responses of a step, if a table is due."""
        if not (self._opened and self._samples and (step == 1 or step % TABLE_INTERVAL == 0)):
            return
        rows = [
            (step, episode.id, turn.index + 1, decision.agent, text, episode.joint_return or 0.0)
            for episode in choose_logged_episodes(groups, self._samples)
            for turn in episode.turns
            for decision in turn.decisions
            for text in [decision.action.text[:MAX_RESPONSE_CHARACTERS]]
        ]
        for tracker in self._opened if rows else ():
            tracker.show(rows, step)

    def close(self) -> None:
        for tracker in self._opened:
            tracker.close()


def choose_logged_episodes(groups: Sequence[Sequence[Episode]], limit: int) -> list[Episode]:
    """Return up to `limit` episodes from best to worst: both ends, and others evenly between."""
    ended = [e for group in groups for e in group if e.joint_return is not None]
    ranked = sorted(ended, key=lambda episode: episode.joint_return or 0.0, reverse=True)
    number = min(limit, len(ranked))
    return [ranked[place * (len(ranked) - 1) // max(1, number - 1)] for place in range(number)]


def format_table(rows: Sequence[SampleRow]) -> str:
    """Return a table in Markdown. Responses are shown literally, not as markup."""
    lines = ["|".join(COLUMNS), "|".join("---" for _ in COLUMNS)]
    lines += ["|".join(_format_cell(value) for value in row) for row in rows]
    return "\n".join(f"|{line}|" for line in lines)


def _format_cell(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    marked = re.sub(r"[&<>\\`*_{}\[\]()#+!|~-]", lambda match: f"&#{ord(match[0])};", text)
    return "<br>".join(marked.splitlines())
