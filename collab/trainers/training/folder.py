"""A training run's folder, which is readable and a runnable team at every moment.

`collab.runs.layout` lists its files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.errors import RecipeError, RecordError
from collab.recipe import Recipe, read_recipe
from collab.recipe.differences import find_differences, flatten_recipe
from collab.recipe.model import TransformersSpec
from collab.recipe.packing import RecipePacker
from collab.recipe.task import SourceSpec
from collab.recipe.writing import write_recipe
from collab.records import Episode
from collab.runs import layout
from collab.runs.about import (
    check_is_training,
    is_training,
    may_be_running,
    read_about,
    write_about,
)
from collab.runs.atomic import check_no_other_files, check_same_folder, explain_disk_errors
from collab.runs.log import Log
from collab.runs.metrics import STEP_FINISHED, read_rows
from collab.tasks import pin_revision
from collab.wording import format_option

if TYPE_CHECKING:
    from collab.trainers.learner.policy import Policies, Policy
    from collab.trainers.training.events import HeldOut

Change = dict[str, Any]
"""A changed setting of a run, with the keys step, key, before, after."""


def check_same_run(before: Recipe, now: Recipe, run: Path) -> None:
    """Refuse a recipe that does not belong to the run in the folder `run`.

    The run's checkpoints depend on its policies, its records on its seed and its problems. All
    other settings may change at any step.

    Raises:
        RecipeError: a fixed setting differs. The message has both values and the remedy.
    """
    for key, (was, is_now) in find_differences(_fixed_settings(before), _fixed_settings(now)):
        raise RecipeError(
            f"{key} is {was!r} in the run {run}, and {is_now!r} would change it; change the value"
            f" back, or start a new run with collab train {run / layout.TRAINING} --set {key}=..."
            " --out FOLDER"
        )


def recipe_changes(before: Recipe, now: Recipe, packing: RecipePacker, step: int) -> list[Change]:
    """Return the changed settings, each with its path, earlier and new value, and the step."""
    values = (flatten_recipe(packing.pack(recipe)) for recipe in (before, now))
    return [
        {"step": step, "key": key, "before": was, "after": is_now}
        for key, (was, is_now) in find_differences(*values)
    ]


def _fixed_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings that identify a run, by key."""
    settings: dict[str, Any] = {"seed": recipe.seed}
    if recipe.task is not None:
        source = pin_revision(recipe.task.source)
        settings |= {f"task.source.{key}": value for key, value in _source_identity(source).items()}
        settings |= {f"task.{key}": getattr(recipe.task, key) for key in ("name", "id_field")}
    if recipe.trainer is not None:
        lora = recipe.trainer.lora.model_dump()
        settings |= {f"trainer.lora.{key}": value for key, value in lora.items()}
        settings["trainer.algorithm"] = recipe.trainer.algorithm.use.rpartition("/")[2]
        settings |= {
            f"trainer.{k}": getattr(recipe.trainer, k) for k in ("policies", "tasks_per_step")
        }
    for name, agent in recipe.team.agents.items():
        place = f"team.agents.{name}"
        settings[f"{place}.trainable"] = agent.trainable
        if agent.trainable:
            model = recipe.model_of(name)
            settings[f"{place}.model.name"] = _absolute_path(getattr(model, "name", None))
            settings[f"{place}.model.revision"] = getattr(model, "revision", None)
            settings[f"{place}.adapter"] = _absolute_path(agent.adapter)
    return settings


def _source_identity(source: SourceSpec) -> Mapping[str, Any]:
    """Return the source of the rows. A file counts by its content: a run's folder has a copy."""
    fields = source.model_dump()
    if source.path:
        fields["path"] = blake2b(Path(source.path).read_bytes(), digest_size=8).hexdigest()
    return fields


def _absolute_path(name: str | None) -> str | None:
    return str(Path(name).resolve()) if name and Path(name).exists() else name


_LOG_NAMES = (layout.EPISODES, layout.METRICS, layout.EVALUATION)


class TrainingFolder:
    """A training run's folder, open for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.packing = RecipePacker(path)
        remedy = f"free some space, then continue with {format_option('resume', path)}"
        self._logs = {name: Log(path / name, remedy) for name in _LOG_NAMES}
        self._before_step: dict[str, int] | None = None
        """Sizes of the logs before the step that was sampled but not yet learned."""

    @classmethod
    def create(cls, path: Path, recipe: Recipe, about: Mapping[str, Any]) -> TrainingFolder:
        """Write the initial files into an existing folder, and return it, open for writing."""
        with explain_disk_errors(path):
            folder = cls(path)
            write_recipe(path / layout.TRAINING, recipe, folder.packing)
        write_about(path, about)
        return folder

    @classmethod
    def reopen(
        cls, path: Path, before: Recipe, recipe: Recipe, about: dict[str, Any], step: int
    ) -> TrainingFolder:
        """Return the folder of a run that continues at `step`, after writing its current settings.

        If `recipe` differs from `before`, the folder records it: `training.yaml` is the new recipe,
        and `changes` in `run.json` lists the replaced values. These changes are added to `about`,
        except those that a killed run listed but did not apply.

        Raises:
            RecordError: the folder is not a training run, or cannot be written.
        """
        check_is_training(path)
        with explain_disk_errors(path), ExitStack() as opened:
            folder = opened.enter_context(closing(cls(path)))
            new = recipe_changes(before, recipe, folder.packing, step)
            values, listed = flatten_recipe(folder.packing.pack(before)), about.pop("changes", [])
            # A run that was killed here before has listed changes that it did not apply.
            while listed and (last := listed[-1])["step"] == step:
                if last["before"] != values.get(last["key"]):
                    break
                listed.pop()
            if listed or new:
                about["changes"] = [*listed, *new]
            write_about(path, about)
            if new:
                write_recipe(path / layout.TRAINING, recipe, folder.packing)
            opened.pop_all()
        return folder

    @classmethod
    def check(cls, path: Path, recipe: Recipe) -> tuple[Recipe, dict[str, Any]]:
        """Return the earlier recipe and the content of `run.json`, for a run that continues with
        `recipe`.

        Raises:
            RecordError: the folder is not a training run, or cannot be read.
            RecipeError: `recipe` would make it another run.
        """
        check_is_training(path)
        before = read_recipe(str(path / layout.TRAINING))[0]
        check_same_run(before, recipe, path)
        return before, read_about(path)

    @classmethod
    def finished(cls, path: Path, recipe: Recipe) -> dict[str, Any] | None:
        """Return the summary of a run that is complete under `recipe`, or None."""
        before, about = cls.check(path, recipe)
        is_done = about.get("status") == "done" and before.trainer == recipe.trainer
        return dict(about["summary"]) if is_done and about.get("summary") else None

    @staticmethod
    def check_is_free(path: Path) -> None:
        """Check that a new run can use the folder: it has no other files, no finished step, and no
        running run.

        Raises:
            RecordError: the folder contains one of these.
        """
        # A vLLM server that did not start has left its log.
        log = f"{layout.LOGS}/{layout.SERVER_LOG.format(place=0, rank=0)}"
        check_no_other_files(path, layout.RUN, layout.TRAINING_LOG, log)
        if (path / layout.EPISODES).exists() and not _has_no_step(path):
            raise RecordError(
                f"{path} already contains a run; choose another folder with {format_option('out')},"
                f" or continue with {format_option('resume', path)}"
            )

    def append_groups(self, groups: Sequence[Sequence[Episode]], first: int) -> None:
        """Append the groups of a step. `first` is the number of the first one in the run."""
        self._before_step = self.sizes()
        for number, group in enumerate(groups, start=first):
            for episode in group:
                numbered = episode.model_copy(update={"group": number})
                self._logs[layout.EPISODES].append(numbered.model_dump_json())

    def append_held_out(self, played: HeldOut) -> None:
        """Append an episode of an evaluation to `evaluation.jsonl`."""
        self._logs[layout.EVALUATION].append(played.model_dump_json())

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a row to `metrics.jsonl`: the metrics of a step, or of an evaluation."""
        self._before_step = None
        self._logs[layout.METRICS].append(json.dumps(dict(row)))

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines of `metrics.jsonl`."""
        lines = read_rows(self.path)
        if lines.complaints:
            raise RecordError(lines.complaints[0])
        return lines.items

    def sizes(self) -> dict[str, int]:
        """Return the size of each log in bytes, without the episodes of an unfinished step."""
        if self._before_step is not None:
            return self._before_step
        return {name: log.size() for name, log in self._logs.items()}

    def sync(self) -> dict[str, int]:
        """Flush the logs to the disk, which a checkpoint needs, and return their sizes."""
        for log in self._logs.values():
            log.sync()
        return self.sizes()

    def cut(self, sizes: Mapping[str, int]) -> None:
        """Truncate the logs to earlier `sizes`, because the later steps will be repeated."""
        for name, log in self._logs.items():
            log.cut(sizes.get(name, 0))

    def save_team(self, recipe: Recipe, policies: Policies) -> None:
        """Write the current adapters and a recipe that uses them, each file atomically.

        Raises:
            RecordError: a file cannot be written, or the folder was moved.
        """
        check_same_folder(self.path)
        try:
            for policy in policies:
                policy.save(self.path / _weights_path(policy))
        except (OSError, RuntimeError) as error:
            raise RecordError(f"{self.path}: the team cannot be written: {error}") from error
        trained = recipe.with_agents({a: _trained_fields(p) for p in policies for a in p.agents})
        trained = trained.model_copy(update={"trainer": None})
        with explain_disk_errors(self.path / layout.RECIPE):
            write_recipe(self.path / layout.RECIPE, trained, self.packing)

    def close(self) -> None:
        for log in self._logs.values():
            log.close()


def _has_no_step(path: Path) -> bool:
    """Return True if the training in this folder has ended without a finished step."""
    if not is_training(path) or may_be_running(path):
        return False
    metrics = path / layout.METRICS
    return not metrics.exists() or f'"{STEP_FINISHED}"'.encode() not in metrics.read_bytes()


def _weights_path(policy: Policy) -> str:
    return f"{layout.ADAPTERS if policy.is_adapter else layout.MODELS}/{policy.name}"


def _trained_fields(policy: Policy) -> dict[str, Any]:
    """Return an agent's fields that its policy changes: its adapter, or its whole model."""
    place = _weights_path(policy)
    if policy.is_adapter:
        return {"adapter": place}
    settings = policy.engine.spec.model_dump(exclude={"name", "revision"})
    return {"adapter": None, "model": TransformersSpec(name=place, **settings)}
