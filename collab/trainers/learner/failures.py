"""Why a step of learning ended early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from collab.errors import TrainingError
from collab.models.out_of_memory import is_out_of_memory
from collab.trainers.learner.device_sizes import DeviceSizes


class OutOfMemory(TrainingError):
    """A forward and backward pass that did not fit."""


class Cancelled(Exception):
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
