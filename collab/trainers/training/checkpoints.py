"""Checkpoints: folders that are either complete or absent."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter, OrderedDict
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

from collab.errors import RecordError, TrainingError
from collab.runs.atomic import check_same_folder, sync_files, sync_names
from collab.runs.checkpoint import CheckpointState, check_state, checkpoint_name, read_state
from collab.runs.layout import (
    CHECKPOINT_POLICIES,
    CHECKPOINT_PREFIX,
    CHECKPOINT_STATE,
    CHECKPOINT_TENSORS,
)
from collab.trainers.credit import Algorithm
from collab.trainers.learner.learner import Learner
from collab.wording import format_option

CHECKPOINT_PATTERN = f"{CHECKPOINT_PREFIX}{'[0-9]' * 6}"  # no copy that a user made
PARTIAL_PREFIX = ".partial-"


class Checkpoints:
    """The checkpoints of a run, in `folder`."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self._keep = folder, keep

    def save(
        self, step: int, learner: Learner, algorithm: Algorithm, state: Mapping[str, Any]
    ) -> Path:
        """Write a checkpoint, remove old ones except the best, and return the new folder.

        Raises:
            RecordError: the checkpoint cannot be written, or the run's folder was moved. Earlier
                checkpoints are unchanged.
            TrainingError: the algorithm's state cannot be kept.
        """
        check_same_folder(self.folder)
        path = self.folder / checkpoint_name(step)
        partial = self.folder / f"{PARTIAL_PREFIX}{path.name}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for stale in self.folder.glob(f"{PARTIAL_PREFIX}*"):
                shutil.rmtree(stale)
            learner.save(partial / CHECKPOINT_POLICIES)
            algorithm_state = to_plain_types(dict(algorithm.state()))
            check_readable(algorithm_state)
            parts = {"learner": learner.state(), "algorithm": algorithm_state}
            torch.save({**parts, "random": random_states()}, partial / CHECKPOINT_TENSORS)
            (partial / CHECKPOINT_STATE).write_text(json.dumps({**state, "step": step}))
            sync_files(partial)
            old = self._set_aside(path)
            partial.rename(path)
            sync_names(self.folder)
            shutil.rmtree(old, ignore_errors=True)
        except (OSError, RuntimeError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise RecordError(
                f"checkpoint {path} cannot be written: {error}; earlier ones are intact. If the"
                f" disk is full, free some space, then continue with {format_option('resume')}"
            ) from error
        self._prune(state.get("best_step"))
        return path

    def check(self, run: Path, steps: int) -> None:
        """Check that the run in the folder `run`, with `steps` steps in total, can continue."""
        if (newest := self.latest()) is not None:
            check_state(read_state(newest), newest, run, steps)

    def restore(self, learner: Learner, algorithm: Algorithm) -> CheckpointState | None:
        """Restore the newest checkpoint, and return its state, or None if there is none.

        Raises:
            RecordError: the checkpoint cannot be read, or belongs to another team or another shape.
        """
        if (newest := self.latest()) is None:
            return None
        state = read_state(newest)
        try:
            saved = torch.load(newest / CHECKPOINT_TENSORS, map_location="cpu", weights_only=True)
            learner.load(newest / CHECKPOINT_POLICIES)
            learner.restore(saved["learner"])
            algorithm.restore(saved["algorithm"])
            restore_random_states(saved["random"])
        except _RESTORE_ERRORS as error:
            reason = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
            raise RecordError(
                f"checkpoint {newest} is damaged, or does not fit this recipe: {reason}"
            ) from error
        return state

    def latest(self) -> Path | None:
        """Return the folder of the newest checkpoint, or None if there is none."""
        folders = sorted(self.folder.glob(CHECKPOINT_PATTERN))
        return folders[-1] if folders else None

    def _prune(self, best: int | None) -> None:
        for path in sorted(self.folder.glob(CHECKPOINT_PATTERN))[: -self._keep]:
            if best is None or path.name != checkpoint_name(best):
                shutil.rmtree(self._set_aside(path), ignore_errors=True)

    def _set_aside(self, path: Path) -> Path:
        """Rename a checkpoint to remove it, so a folder called step-* is always complete."""
        old = self.folder / f"{PARTIAL_PREFIX}old-{path.name}"
        return path.rename(old) if path.exists() else old


_RESTORE_ERRORS = (
    *(OSError, EOFError, UnpicklingError, RuntimeError),
    *(LookupError, ValueError, TypeError, AttributeError),
)
"""Errors for tensors that are damaged, or of another form."""


def seed_random_states(seed: int) -> None:
    """Seed every global source of random numbers, for the user's own functions."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_states() -> dict[str, Any]:
    """Return the states of every global source of random numbers."""
    kind, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (kind, [int(key) for key in keys], *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states: Mapping[str, Any]) -> None:
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    if states["cuda"] and len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(states["cuda"])


def to_plain_types(value: Any) -> Any:
    """Return an algorithm's state with Python's numbers for numpy's, and plain collections.

    A defaultdict becomes a dict, a named tuple a tuple. `restore` can read only these types.
    """
    if isinstance(value, Mapping):
        mapping: type[Any] = type(value) if type(value) in (Counter, OrderedDict) else dict
        return mapping({to_plain_types(key): to_plain_types(item) for key, item in value.items()})
    for kind in (list, tuple, set):
        if isinstance(value, kind):
            return kind(map(to_plain_types, value))
    return value.item() if isinstance(value, np.generic) else value


def check_readable(state: Mapping[str, Any]) -> None:
    """Check that an algorithm's state can be read from a checkpoint."""
    for key, value in state.items():
        buffer = BytesIO()
        try:
            torch.save(value, buffer)
            buffer.seek(0)
            torch.load(buffer, map_location="cpu", weights_only=True)
        except Exception as error:
            raise TrainingError(
                f"a checkpoint cannot keep {key!r} of the algorithm's state, of type"
                f" {type(value).__name__}; let its `state` return numbers, strings, lists,"
                " mappings and tensors"
            ) from error
