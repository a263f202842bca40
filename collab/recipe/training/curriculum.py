"""What a team is trained on when: phases of turns and feedback, and levels of difficulty."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from collab.recipe.base import Spec
from collab.recipe.feedback import FeedbackSpec

MeasuredBy = Literal["solved", "return"]


class PhaseSpec(Spec):
    """A phase of training with turns and feedback of its own."""

    steps: int = Field(ge=1)
    """Optimiser steps that the phase lasts."""
    turns: int = Field(ge=1)
    """H during the phase."""
    feedback: tuple[FeedbackSpec, ...] | None = None
    """Default: the team's."""


class LevelsSpec(Spec):
    """Easy tasks first: those of one level after the other, each until it is learned."""

    field: str = "level"
    """The field of the suite's rows that holds a task's level: a number, the lowest the easiest."""
    above: float = Field(default=0.7, ge=0.0, lt=1.0)
    """A level is learned when its mean is above this, over its last `steps` steps."""
    steps: int = Field(default=5, ge=1)
    """Steps over which the mean is taken; a level lasts for at least so many."""
    by: MeasuredBy = "solved"
    """The mean of what: the share of `solved` episodes, or the `return` as a share of the largest
    one."""


class FilterSpec(Spec):
    """Tasks that are neither too hard nor too easy: by what the team did before its training."""

    samples: int = Field(default=8, ge=1)
    """Episodes of each task that are played to measure it."""
    low: float = Field(default=0.1, ge=0.0, le=1.0)
    """Tasks with a smaller rate are left out."""
    high: float = Field(default=0.9, ge=0.0, le=1.0)
    """Tasks with a larger rate are left out."""
    by: MeasuredBy = "solved"
    """The rate of a task: the share of `solved` episodes, or the mean `return` as a share of the
    largest one."""
    episodes: str | None = None
    """Episodes of the same team to measure by, in place of playing: the folder of a run, a probe or
    a team's evaluation, or an `episodes.jsonl`."""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> FilterSpec:
        if self.low > self.high:
            raise ValueError(
                f"low {self.low:g} is above high {self.high:g}, so that no task is left"
            )
        return self
