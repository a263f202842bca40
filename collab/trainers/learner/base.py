"""What a learner is: it holds the policies' parameters and moves them by samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from collab.trainers.learner.samples import Sample
from collab.trainers.learner.update import Update


class Learner(Protocol):
    """Takes optimiser steps; the training run knows nothing of how or where."""

    total_steps: int
    """Steps of the whole training, by which learning rates are planned."""

    def learn(self, samples: Sequence[Sample], step: int, cancelled: Event) -> Update:
        """Learn from the responses of one step, counted from 0; blocks meanwhile.

        Raises:
            TrainingError: it cannot go on. OutOfMemory: what it holds does not fit.
            Cancelled: `cancelled` was set; parameters may have moved by a part of the step.
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
