"""A learner: it holds the policies' parameters and moves them by samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from collab.errors import TrainingError
from collab.models.out_of_memory import is_out_of_memory
from collab.trainers.learner.device_sizes import DeviceSizes
from collab.trainers.learner.samples import Sample


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


@dataclass
class TokenSums:
    """Sums over response tokens, in the first epoch."""

    tokens: int = 0
    logprob: float = 0.0
    mismatch: float = 0.0
    mismatch_kl: float = 0.0
    """The k3 estimate of the sampler's divergence from the trainer."""
    importance: float = 0.0
    """Ratios of the trainer's to the sampler's probability."""
    masked: float = 0.0
    """Tokens that a correction for the sampler left out."""
    clipped: float = 0.0
    outside_support: float = 0.0
    kl: float = 0.0
    kl_tokens: int = 0


@dataclass
class Update:
    """The numbers of one step of learning."""

    sums: dict[str, TokenSums] = field(default_factory=dict)
    """The sums of each agent."""
    losses: dict[str, float] = field(default_factory=dict)
    """The loss of each policy; absent where no response had a weight."""
    gradient_norms: dict[str, float] = field(default_factory=dict)
    """The gradient norm of each policy before clipping; absent where it was not finite."""
    order: dict[str, int] = field(default_factory=dict)
    """The place of each policy that learned in the order of updates, from 1."""
    compound_ratios: dict[str, float] = field(default_factory=dict)
    """The mean factor of each policy's weights, as others were updated before it."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a policy with something to learn from was left as it was, by its name."""
    warnings: list[str] = field(default_factory=list)
    """Slow paths in use, and why."""
    rate: float = 0.0
    """The learning rate of the step."""
    computed_tokens: int = 0
    """The tokens of all forward passes with gradient, padding included."""

    def add(self, responses: Sequence[tuple[str, TokenSums]]) -> None:
        """Add the sums of responses to those of their agents."""
        for agent, sums in responses:
            total = self.sums.setdefault(agent, TokenSums())
            for item in fields(TokenSums):
                setattr(total, item.name, getattr(total, item.name) + getattr(sums, item.name))


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
        """Entries for `run.json`."""

    def state(self) -> Mapping[str, Any]:
        """State of the next step besides parameters: numbers, mappings and tensors."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""

    def save(self, folder: Path) -> None:
        """Write the parameters, a folder for each policy."""

    def load(self, folder: Path) -> None:
        """Take the parameters that `save` wrote; raises RecordError where they do not fit."""
