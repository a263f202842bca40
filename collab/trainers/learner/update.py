"""The statistics of a learning step, and the failures that end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from collab.errors import TrainingError
from collab.models.out_of_memory import is_out_of_memory
from collab.trainers.learner.device_sizes import DeviceSizes


class OutOfMemory(TrainingError):
    """A forward and backward pass did not fit into memory."""


class StepCancelled(Exception):
    """The step was canceled. The parameters may have moved by a part of the step."""


class NotFinite(Exception):
    """A loss or gradient norm is not finite, so no step can be taken."""


@contextmanager
def explain_memory(sizes_of: Callable[[], DeviceSizes], policy: str) -> Iterator[None]:
    """Replace a device's out-of-memory error by one that names settings that need less memory."""
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
