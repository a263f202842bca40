"""What a team is trained on when: phases of turns and feedback, and levels of difficulty."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

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
