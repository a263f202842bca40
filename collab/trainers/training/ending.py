"""When a training run ends: after so many steps, or so many generated tokens."""

from __future__ import annotations

from dataclasses import dataclass

from collab.recipe import TrainerSpec


@dataclass(frozen=True)
class Ending:
    """The end of a run: whichever of its limits is reached first."""

    steps: int
    """The most that there may be."""
    tokens: int | None
    """Generated ones that end the run, where they do."""
    by_steps: bool
    """Whether the steps were chosen, and are no mere bound."""

    @classmethod
    def of(cls, spec: TrainerSpec, steps: int) -> Ending:
        """The end that a trainer chooses; `steps` are the most that there may be."""
        return cls(steps, spec.tokens, by_steps=spec.tokens is None or spec.steps is not None)

    def is_reached(self, step: int, tokens: int) -> bool:
        """Whether the step that was done is the last one."""
        return step >= self.steps or (self.tokens is not None and tokens >= self.tokens)

    def planned(self) -> dict[str, int]:
        """What `run.json` says of it."""
        found = {} if self.tokens is None else {"tokens": self.tokens}
        return {**found, "steps": self.steps} if self.by_steps else found
