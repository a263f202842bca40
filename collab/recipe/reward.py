"""A joint reward: named parts with weights, added up in order."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from collab.recipe.base import Spec


class PartSpec(Spec):
    """One part. It contributes `weight` x its value, a number from 0 to 1."""

    use: str
    """A part's name, `module:function`, or `file.py:function`."""
    level: str = ""
    """Parts of one level are reported together; default: the part's own name."""
    weight: float = 1.0
    """Points for a value of 1; below 0 for a penalty."""
    gate: bool = False
    """When its value is 0 (of a ramp: beyond its end), the parts after it are not scored."""
    requires: str | None = None
    """An earlier part whose value must be above 0 for this one to be scored."""
    solves: bool = False
    """A value of 1 says that the task is solved; where several parts have this, all of them do."""
    options: dict[str, Any] = {}
    """Passed on to the part's function."""

    @model_validator(mode="after")
    def _no_penalty_solves(self) -> PartSpec:
        if self.solves and self.weight < 0:
            raise ValueError(
                f"'solves' is set and the weight is {self.weight:g}, so to solve the task would"
                " cost points; set the weight to 0 or more"
            )
        return self


class RewardSpec(Spec):
    name: str = ""
    description: str = ""
    parts: dict[str, PartSpec] = Field(min_length=1)
    seconds: float = Field(default=60.0, gt=0)
    """Time limit for scoring one joint action."""

    @model_validator(mode="after")
    def _requirements_come_first(self) -> RewardSpec:
        seen: set[str] = set()
        for name, part in self.parts.items():
            if part.requires is not None and part.requires not in seen:
                raise ValueError(
                    f"part '{name}' requires '{part.requires}', which is not an earlier part"
                    f" (earlier: {', '.join(seen) or 'none'})"
                )
            seen.add(name)
        return self
