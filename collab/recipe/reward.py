"""A joint reward: named parts with weights, added up in order."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator, model_validator

from collab.recipe.base import Spec


class AlarmSpec(Spec):
    """When training warns of a value: where its mean over the last steps is out of bounds."""

    above: float | None = Field(default=None, ge=0, le=1)
    """It is above this."""
    below: float | None = Field(default=None, ge=0, le=1)
    """It is below this."""
    below_best: float | None = Field(default=None, gt=0, le=1)
    """It is below this share of the best step so far."""
    behind_return: bool = False
    """It is no higher than in the first steps, although the return has risen."""
    while_solved: float | None = Field(default=None, ge=0, le=1)
    """Warn only where more than this share of the episodes is solved."""
    says: str
    """The warning. `{first}`, `{now}` and `{gain}` in it stand for the value at first, the value
    now, and what the return has gained, e.g. `{now:.0%}`."""

    @model_validator(mode="after")
    def _one_bound(self) -> AlarmSpec:
        bounds = ("above", "below", "below_best")
        given = [name for name in bounds if getattr(self, name) is not None]
        given += ["behind_return"] * self.behind_return
        if len(given) != 1:
            raise ValueError(
                "an alarm takes exactly one of 'above', 'below', 'below_best' and 'behind_return',"
                f" got {' and '.join(given) or 'none'}"
            )
        return self

    @field_validator("says")
    @classmethod
    def _can_be_filled_in(cls, says: str) -> str:
        try:
            says.format(first=0.0, now=0.0, gain=0.0)
        except (LookupError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{says!r:.80} cannot be filled in ({type(error).__name__}: {error}); it may name"
                " {first}, {now} and {gain}, and a literal brace is written twice"
            ) from None
        return says


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
    shown_as: str = ""
    """What reports and lists call it; default: the part's own name, and no column in lists."""
    best_of: str = ""
    """An evaluation tells the best of k tries of the part's level under this name, `NAME@k`."""
    alarm: AlarmSpec | None = None
    """When training warns of the part's value; default: as the part's function declares it."""
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
