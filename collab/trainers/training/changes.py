"""What may change in a run that goes on, and what did: `training.yaml` and `run.json` say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collab.errors import RecipeError
from collab.recipe import Recipe
from collab.recipe.packing import Packing
from collab.recipe.task import SourceSpec
from collab.runs.layout import TRAINING
from collab.tasks import pinned

Change = dict[str, Any]
"""From which step on which key has which value, and which one it had: step, key, before, after."""


def check_same_run(before: Recipe, now: Recipe, run: Path) -> None:
    """Refuse a recipe that is not that of the run in the folder `run`, but of another one.

    Checkpoints are of its policies, and what is recorded is of its seed and its problems. All else
    may change from a step on.

    Raises:
        RecipeError: a setting differs that may not; with both values and the remedy.
    """
    was, is_now = _fixed(before), _fixed(now)
    for key in dict.fromkeys((*was, *is_now)):
        if was.get(key) != is_now.get(key):
            raise RecipeError(
                f"{key} is {was.get(key)!r} in the run {run}, and {is_now.get(key)!r} would make it"
                f" another run; leave it as it is, or begin anew with"
                f" collab train {run / TRAINING} --set {key}=... --out FOLDER"
            )


def changes(before: Recipe, now: Recipe, packing: Packing, step: int) -> list[Change]:
    """The settings that differ, as the run's folder names them."""
    was, is_now = (flat(packing.pack(recipe)) for recipe in (before, now))
    return [
        {"step": step, "key": key, "before": was.get(key), "after": is_now.get(key)}
        for key in dict.fromkeys((*was, *is_now))
        if was.get(key) != is_now.get(key)
    ]


def applied(listed: Sequence[Change], now: Recipe, packing: Packing, step: int) -> list[Change]:
    """Those of the `listed` changes that came to be, where `now` is the run's recipe at `step`.

    A change is listed in `run.json` before `training.yaml` has it, and a run may be killed between
    the two: the recipe then still has what was before.
    """
    value, found = flat(packing.pack(now)), []
    for change in reversed(listed):
        key, before, after = (change.get(name) for name in ("key", "before", "after"))
        is_now = value.get(str(key))
        if change.get("step") == step and is_now == before != after:
            continue
        found.append(change)
        value[str(key)] = before
    return found[::-1]


def _fixed(recipe: Recipe) -> dict[str, Any]:
    """By key: what a run is known by."""
    found: dict[str, Any] = {"seed": recipe.seed}
    if recipe.task is not None:
        source = pinned(recipe.task.source)
        found |= {f"task.source.{key}": value for key, value in _rows(source).items()}
        found |= {f"task.{key}": getattr(recipe.task, key) for key in ("name", "id_field")}
    if recipe.trainer is not None:
        lora = recipe.trainer.lora.model_dump()
        found |= {f"trainer.lora.{key}": value for key, value in lora.items()}
        found["trainer.algorithm"] = recipe.trainer.algorithm.use.rpartition("/")[2]
        found |= {
            f"trainer.{k}": getattr(recipe.trainer, k) for k in ("policies", "tasks_per_step")
        }
        measured = recipe.trainer.filter
        found["trainer.filter.by"] = measured.by if measured else None
        found["trainer.filter.samples"] = measured.samples if measured else None
    for name, agent in recipe.team.agents.items():
        place = f"team.agents.{name}"
        found[f"{place}.trainable"] = agent.trainable
        if agent.trainable:
            model = recipe.model_of(name)
            found[f"{place}.model.name"] = _place(getattr(model, "name", None))
            found[f"{place}.model.revision"] = getattr(model, "revision", None)
            found[f"{place}.adapter"] = _place(agent.adapter)
    return found


def _rows(source: SourceSpec) -> Mapping[str, Any]:
    """Where rows are from; a file counts by its content, since a run's folder has a copy."""
    found = source.model_dump()
    if source.path:
        found["path"] = blake2b(Path(source.path).read_bytes(), digest_size=8).hexdigest()
    return found


def _place(name: str | None) -> str | None:
    return str(Path(name).resolve()) if name and Path(name).exists() else name


def flat(data: Any, above: str = "") -> dict[str, Any]:
    """Settings by their whole keys, as `--set` takes them."""
    if not isinstance(data, dict):
        return {above: data}
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= flat(value, f"{above}.{key}" if above else str(key))
    return found
