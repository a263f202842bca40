"""Trains with a credit algorithm for a few steps, with a stop and a resume."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from support.trainer_recipes import make_game, steps_of
from support.worlds.run_states import flat

from collab.recipe import Recipe
from collab.trainers import TrainingRun


def check_resume(
    algorithm: Any, model: Path, folder: Path, *, recipe: Recipe | None = None, **trainer: Any
) -> list[dict[str, Any]]:
    """Train two steps, and again with a stop after one; return the steps' metrics.

    Adapters, gradient norms, the algorithm's measures and the saved state must match bit by bit.
    """
    settings = {"steps": 2, "checkpoint_every": 1, **trainer}
    recipe = recipe or make_game(model, folder, algorithm=algorithm, **settings)
    uninterrupted = run(recipe, folder / "whole")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(TrainingRun(recipe, folder / "part", emit=_stop_after(1)).run())
    resumed = run(recipe, folder / "part", resume=True)
    assert len(resumed) == 2
    assert [_kept(row) for row in resumed] == [_kept(row) for row in uninterrupted]
    assert _adapters(folder / "part") == _adapters(folder / "whole")
    assert flat(saved_in(folder / "part")) == flat(saved_in(folder / "whole"))
    return uninterrupted


def run(recipe: Recipe, out: Path, **options: Any) -> list[dict[str, Any]]:
    """Train, and return the metrics of each step."""
    asyncio.run(TrainingRun(recipe, out, **options).run())
    return steps_of(out)


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    joining = ("joint_actions/seconds", "joint_actions/waited")
    timed = ("time/", "seconds", "tokens_per_second", "memory", *joining)
    return {key: value for key, value in row.items() if not key.startswith(timed)}


def _adapters(out: Path) -> dict[str, bytes]:
    found = {p.parent.name: p.read_bytes() for p in out.glob("adapters/*/*.safetensors")}
    assert found
    return found


def saved_in(out: Path) -> dict[str, Any]:
    """The state at the end of a run: optimizers, random numbers and the algorithm."""
    newest = max((out / "checkpoints").glob("step-*"))
    saved: dict[str, Any] = torch.load(newest / "state.pt", weights_only=True)
    return saved


def _stop_after(step: int) -> Any:
    def emit(event: Any) -> None:
        if event.type == "checkpoint.saved" and event.step == step:
            raise KeyboardInterrupt

    return emit
