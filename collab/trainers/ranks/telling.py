"""How what failed on one rank is told to the others, and raised there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from collab.errors import CollabError, TrainingError, told
from collab.models.out_of_memory import is_out_of_memory
from collab.trainers.learner.base import NotFinite, OutOfMemory, StepCancelled

T = TypeVar("T")

IS_TOLD, RANK = "is_told", "rank"
"""What an exception is given that was told to all ranks."""

KEPT = (StepCancelled, NotFinite, OutOfMemory)
"""Failures that are of the same kind on every rank; all others are a TrainingError there."""


class RankLost(TrainingError):
    """A rank is not there any more, or does not come; nothing can be told to the others."""


@dataclass(frozen=True)
class RankOutcome(Generic[T]):
    """What one rank's part of a work came to."""

    found: T | None = None
    kind: type[Exception] | None = None
    """The kind of failure that is raised on every rank."""
    text: str = ""


def outcome_of(work: Callable[[], T]) -> RankOutcome[T]:
    """Do the work, and give what it found, or how it failed."""
    try:
        return RankOutcome(found=work())
    except RankLost:
        raise
    except Exception as error:
        return RankOutcome(kind=_kind_of(error), text=_text_of(error))


def _kind_of(error: Exception) -> type[Exception]:
    if isinstance(error, RuntimeError) and is_out_of_memory(error):
        return torch.OutOfMemoryError
    return type(error) if isinstance(error, KEPT) else TrainingError


def _text_of(error: Exception) -> str:
    return str(error) if isinstance(error, (CollabError, *KEPT)) else told(error)


def words_of(rank: int, error: Exception) -> str:
    """What a rank says of its failure in a pass, which it cannot agree on with the others."""
    if isinstance(error, RuntimeError) and is_out_of_memory(error):
        return (
            f"no memory is left on rank {rank} for a pass; lower trainer.micro_batch_tokens, or set"
            " trainer.gradient_checkpointing=true"
        )
    return f"rank {rank}: {_text_of(error)}"


def is_of_others(error: Exception) -> bool:
    """Whether a pass failed only as another rank has left it, or did not come."""
    return isinstance(error, RuntimeError) and bool(re.search("gloo|NCCL", str(error)))


def raise_failures(outcomes: Sequence[RankOutcome[T]]) -> None:
    """Raise the failure of the first rank that has one; it is named unless all have the same."""
    failed = [(rank, o.kind, o.text) for rank, o in enumerate(outcomes) if o.kind is not None]
    if not failed:
        return
    rank, kind, text = failed[0]
    same = len(failed) == len(outcomes) and len({text for _, _, text in failed}) == 1
    error = known_to_all(kind(text if same else f"rank {rank}: {text}"))
    setattr(error, RANK, rank)
    raise error


def known_to_all(error: Exception) -> Exception:
    """The error, which every rank raises and need tell nobody."""
    setattr(error, IS_TOLD, True)
    return error


def is_told(error: BaseException | None) -> bool:
    """Whether all ranks know of the failure, or none can be told of it."""
    return any(isinstance(e, RankLost) or hasattr(e, IS_TOLD) for e in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
