"""A joint reward: named parts with weights, added up in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import Field, field_validator

from collab.recipe.base import Spec

MAX_ALARM_CHARACTERS = 500
_FORMAT_FIELD = re.compile(
    r"\{\{|\}\}|\{(?:first|now|gain)(?::[+ ]?[0-9]{0,2}(?:\.[0-9]{1,2})?[%efg]?)?\}"
)
"""Literal braces and the fields that `str.format` may replace. Others could take any memory."""


class AlarmSpec(Spec):
    """Bounds on a value's mean over the last 10 steps. Training warns if the mean is outside."""

    above: float | None = Field(default=None, ge=0, le=1)
    """Warn if the mean is above this."""
    below: float | None = Field(default=None, ge=0, le=1)
    """Warn if the mean is below this."""
    below_best: float | None = Field(default=None, gt=0, le=1)
    """Warn if the mean is below this share of the best step so far."""
    behind_return: bool = False
    """Warn if the mean is no higher than in the first steps although the return has risen."""
    while_solved: float | None = Field(default=None, ge=0, le=1)
    """Warn only if more than this share of the episodes is solved."""
    says: str = Field(max_length=MAX_ALARM_CHARACTERS)
    """The warning's text. `{first}`, `{now}` and `{gain}` are replaced by the first value, the
    current value and the gain in return. A format may follow, e.g. `{now:.0%}` or `{gain:+.2f}`."""

    def _faults(self) -> Iterator[str]:
        bounds = ("above", "below", "below_best")
        chosen = [name for name in bounds if getattr(self, name) is not None]
        chosen += ["behind_return"] * self.behind_return
        if len(chosen) != 1:
            yield (
                "an alarm takes exactly one of 'above', 'below', 'below_best' and 'behind_return',"
                f" got {' and '.join(chosen) or 'none'}"
            )

    @field_validator("says")
    @classmethod
    def _check_format(cls, says: str) -> str:
        rest = _FORMAT_FIELD.sub("", says)
        if wrong := re.search("[{}].*", rest):
            raise ValueError(
                f"{wrong[0]!r:.80} cannot be formatted; it may name {{first}}, {{now}} and"
                " {gain}, with a format such as {now:.0%} or {gain:+.2f}, and a literal brace is"
                " written twice"
            )
        return says


class PartSpec(Spec):
    """One part of a reward. It adds `weight` x its value, a number from 0 to 1."""

    use: str
    """The part: a built-in name, `module:function`, or `file.py:function`."""
    level: str = ""
    """The part's level. Parts of a level are reported together. Default: the part's own name."""
    weight: float = 1.0
    """Points for a value of 1, negative for a penalty."""
    gate: bool = False
    """If the value is 0, later parts are not scored. A ramp closes the gate only beyond its end."""
    requires: str | None = None
    """An earlier part. If its value is 0, this part is not scored."""
    solves: bool = False
    """Count a value of 1 as solved. If several parts set this, all of them must be 1."""
    shown_as: str = ""
    """The part's name in reports and lists. Default: its own name in reports, and no column in
    lists."""
    best_of: str = ""
    """Name under which evaluations show the best of k samples on the part's level: `NAME@k`."""
    alarm: AlarmSpec | None = None
    """Bounds on the part's value, outside which training warns. Default: those that the part's
    function declares."""
    options: dict[str, Any] = {}
    """Options passed on to the part's function."""

    def _faults(self) -> Iterator[str]:
        if self.solves and self.weight < 0:
            yield (
                f"'solves' is set and the weight is {self.weight:g}, so solving the task would"
                " cost points; set the weight to 0 or more"
            )


class RewardSpec(Spec):
    """A reward: the weighted sum of its parts."""

    name: str = ""
    description: str = ""
    parts: dict[str, PartSpec] = Field(min_length=1)
    """The parts by name, in the order in which they are scored."""
    seconds: float = Field(default=60.0, gt=0)
    """Time limit for scoring one joint action, in seconds, without the time in the sandbox."""

    def _faults(self) -> Iterator[str]:
        seen: list[str] = []
        for name, part in self.parts.items():
            if part.requires is not None and part.requires not in seen:
                yield (
                    f"part '{name}' requires '{part.requires}', which is not an earlier part"
                    f" (earlier: {', '.join(seen) or 'none'})"
                )
            seen.append(name)
