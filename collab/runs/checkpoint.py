"""`state.json` of a checkpoint: the run's progress, and the sizes of its files."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from collab.errors import RecordError
from collab.runs.about import Count
from collab.runs.layout import CHECKPOINT_PREFIX, CHECKPOINT_STATE
from collab.runs.reading import read_bytes
from collab.wording import list_errors


class CheckpointState(BaseModel):
    """The part of a checkpoint without tensors."""

    model_config = ConfigDict(frozen=True, strict=True)

    step: Count
    sizes: dict[str, Count]
    """Sizes of the run's logs in bytes, by file."""
    best_step: Count | None = None
    """Step of the best evaluation on held-out tasks."""


def read_state(path: Path) -> CheckpointState:
    """Return the state of the checkpoint in a folder.

    Raises:
        RecordError: the state cannot be read, or its content is invalid.
    """
    file = path / CHECKPOINT_STATE
    try:
        state = CheckpointState.model_validate_json(read_bytes(file))
    except OSError as error:
        raise RecordError(f"{file} cannot be read: {error.strerror}; {_remedy(path)}") from error
    except ValidationError as error:
        reason = f"{list_errors(error)[0]}, got {error.errors()[0]['input']!r:.60}"
        raise RecordError(f"{file}: {reason}; {_remedy(path)}") from error
    if path.name != checkpoint_name(state.step):
        raise RecordError(
            f"{file}: step is {state.step}, and the folder is called {path.name}; {_remedy(path)}"
        )
    return state


def check_state(state: CheckpointState, path: Path, run: Path, steps: int) -> None:
    """Check a state of the checkpoint `path` against the files of its run.

    Raises:
        RecordError: the state belongs to a later step than the run has, or to longer files.
    """
    if state.step > steps:
        raise RecordError(
            f"{path} is from step {state.step}, but the run has {steps} steps; set trainer.steps"
            f" to {state.step} or more"
        )
    for name, size in state.sizes.items():
        file = run / name
        there = file.stat().st_size if file.is_file() else 0
        if there < size:
            raise RecordError(
                f"{file} has {there:,} bytes, and {size:,} when {path.name} was written; restore"
                f" the file, or {_remedy(path)}"
            )


def checkpoint_name(step: int) -> str:
    """Return the folder name of a step's checkpoint."""
    return f"{CHECKPOINT_PREFIX}{step:06d}"


def _remedy(path: Path) -> str:
    return f"remove {path} to continue from an earlier one"
