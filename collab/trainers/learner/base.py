"""A learner: it holds the policies' parameters and moves them by samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from collab.errors import TrainingError
from collab.models.out_of_memory import is_out_of_memory
from collab.trainers.learner.device_sizes import DeviceSizes
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.update import Update


class OutOfMemory(TrainingError):
    """A forward and backward pass that did not fit."""


class StepCancelled(Exception):
    """Nobody waits for the step any more; parameters may have moved by a part of it."""


class NotFinite(Exception):
    """A loss or gradient norm that no step can be taken by."""


@contextmanager
def memory_told(sizes_of: Callable[[], DeviceSizes], policy: str) -> Iterator[None]:
    """Raise OutOfMemory with the settings that take less, where a device has no memory left."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        sizes = sizes_of()
        other = (
            "" if sizes.gradient_checkpointing else ", or set trainer.gradient_checkpointing=true"
        )
        where = f" on rank {rank}" if (rank := getattr(error, "rank", None)) is not None else ""
        raise OutOfMemory(
            f"no memory is left{where} for learning with policy '{policy}'; lower"
            f" trainer.micro_batch_tokens, now {sizes.micro_batch_tokens}{other}"
        ) from error


def smaller_told(policy: str, before: int, now: int) -> str:
    """A warning that micro-batches were made smaller, and which setting has them so at once."""
    return (
        f"no memory was left for learning with policy '{policy}' in micro-batches of {before:,}"
        f" tokens; it goes on with {now:,}, as trainer.micro_batch_tokens={now} does from the start"
    )


class Learner(Protocol):
    """Takes optimiser steps; the training run knows nothing of how or where."""

    total_steps: int
    """Steps of the whole training, by which learning rates are planned."""

    def learn(self, samples: Sequence[Sample], step: int, cancelled: Event) -> Update:
        """Learn from the responses of one step, counted from 0; blocks meanwhile.

        Raises:
            TrainingError: it cannot go on. OutOfMemory: what it holds does not fit.
            StepCancelled: `cancelled` was set; parameters may have moved by a part of the step.
        """

    async def publish(self) -> bool:
        """Let whoever samples act by the parameters as they are now; whether that took anything."""

    async def sleep(self) -> None:
        """Let samplers beside the learner give memory back until `publish`."""

    def about(self) -> Mapping[str, Any]:
        """What `run.json` says of how it learns."""

    def state(self) -> Mapping[str, Any]:
        """What the next step depends on besides parameters: numbers, mappings and tensors."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""

    def save(self, folder: Path) -> None:
        """Write the parameters, a folder for each policy."""

    def load(self, folder: Path) -> None:
        """Take the parameters that `save` wrote; raises RecordError where they do not fit."""
