"""Play on held-out tasks."""

from __future__ import annotations

from pydantic import Field

from collab.recipe.base import Spec


class EvaluationSpec(Spec):
    """Play on held-out tasks, before training and after it."""

    tasks: str = "test"
    """A split of the suite, or rows such as `133-163`."""
    every: int | None = Field(default=None, ge=1)
    """Also after every so many steps."""
    every_tokens: int | None = Field(default=None, ge=1)
    """Also whenever so many more tokens were generated in training, by the step that reaches
    them."""
    samples: int = Field(default=4, ge=1)
    """Episodes of each task under the training's own sampling settings."""
    greedy: bool = True
    """One more episode of each task at temperature 0."""
