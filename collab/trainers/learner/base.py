"""The learner, which holds the policies' parameters and updates them from samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from collab.errors import TrainingError
from collab.models.out_of_memory import is_out_of_memory
from collab.trainers.learner.device_sizes import DeviceSizes
from collab.trainers.learner.samples import Sample


class OutOfMemory(TrainingError):
    """A forward and backward pass did not fit into memory."""


class StepCancelled(Exception):
    """The step was canceled. The parameters may have moved by a part of the step."""


class NotFinite(Exception):
    """A loss or gradient norm is not finite, so no step can be taken."""


@contextmanager
def explain_memory(sizes_of: Callable[[], DeviceSizes], policy: str) -> Iterator[None]:
    """Context manager that replaces a device's out-of-memory error by OutOfMemory, which names
    settings that need less memory."""
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
            f"out of memory{where} while learning with policy '{policy}'; lower"
            f" trainer.micro_batch_tokens, now {sizes.micro_batch_tokens}{other}"
        ) from error


def smaller_batches(policy: str, before: int, now: int) -> str:
    """Return the warning that micro-batches were halved, with the setting that avoids this."""
    return (
        f"out of memory while learning with policy '{policy}' in micro-batches of {before:,}"
        f" tokens; collab continues with {now:,}. To start with this size, set"
        f" trainer.micro_batch_tokens={now}"
    )


TokenSums = dict[str, float]
"""Sums over response tokens in the first epoch, by the name of their metric.

`TOKENS` and `KL_TOKENS` count the tokens; the latter those whose KL divergence was measured."""
TOKENS, KL_TOKENS = "tokens", "kl_tokens"


@dataclass
class Update:
    """The statistics of one learning step."""

    sums: dict[str, TokenSums] = field(default_factory=dict)
    """Sums of each agent."""
    losses: dict[str, float] = field(default_factory=dict)
    """Loss of each policy, absent if no response had a weight."""
    gradient_norms: dict[str, float] = field(default_factory=dict)
    """Gradient norm of each policy before clipping, absent if it was not finite."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Reasons why a policy that had samples to learn from was left unchanged, by its name."""
    warnings: list[str] = field(default_factory=list)
    """Slow paths in use, with the reasons."""
    rate: float = 0.0
    """Learning rate of the step."""
    computed_tokens: int = 0
    """Number of tokens in all forward passes with gradient, including padding."""

    def add(self, responses: Sequence[tuple[str, TokenSums]]) -> None:
        """Add the sums of responses to those of their agents."""
        for agent, sums in responses:
            total = self.sums.setdefault(agent, {})
            for name, value in sums.items():
                total[name] = total.get(name, 0.0) + value


class Learner(Protocol):
    """Updates the policies. This is the interface between a training run and its optimizers."""

    total_steps: int
    """Number of steps of the whole training, for the learning rate schedule."""

    def learn(self, samples: Sequence[Sample], step: int, cancelled: Event) -> Update:
        """Learn from the responses of one step, counted from 0, and return its statistics. The call
        blocks until done.

        Raises:
            TrainingError: learning cannot continue.
            OutOfMemory: the step does not fit into memory.
            StepCancelled: `cancelled` was set. Parameters may have moved by a part of the step.
        """

    async def publish(self) -> bool:
        """Send the current parameters to samplers. Return False if no sampler needed them."""

    async def sleep(self) -> None:
        """Let samplers with their own copy of the weights free memory until the next `publish`."""

    def about(self) -> Mapping[str, Any]:
        """Return entries of `run.json` about the learner."""

    def state(self) -> Mapping[str, Any]:
        """Return all state that the next step needs, except the parameters.

        The state consists of numbers, mappings and tensors.
        """

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state` from a checkpoint."""

    def save(self, folder: Path) -> None:
        """Write the parameters, one folder per policy."""

    def load(self, folder: Path) -> None:
        """Load the parameters that `save` wrote.

        Raises:
            RecordError: the parameters do not fit.
        """
