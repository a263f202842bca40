"""A turn's joint reward, and everything it is made of."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from collab.records.base import Record


class Tests(Record):
    passed: int
    total: int

    @property
    def fraction(self) -> float:
        return self.passed / self.total if self.total else 0.0


class PartScore(Record):
    """One named part of a joint reward. `points` = `weight` x `value`."""

    name: str
    level: str
    value: float
    weight: float
    reason: str
    applies: bool = True
    """False where the part has no meaning for this team; it then leaves the maximum too."""

    @property
    def points(self) -> float:
        return self.weight * self.value if self.applies else 0.0


class Scheme(Record):
    """A way of working together that a joint program shows, and where."""

    name: str
    """One of `collab.analysis.SCHEMES`."""
    lines: tuple[int, ...]
    """Lines of the joint artefact that prove it, 1-based."""
    why: str


class Score(Record):
    """The joint reward of one turn and everything it is made of."""

    reward: float
    maximum: float
    """The largest reward that this team could have been given. In an environment that of the whole
    game, at its last turn; 0 at the turns before."""
    by_agent: dict[str, float] = {}
    """Where agents do not earn the same, as in a game that one of them wins: what each earns. The
    joint reward is then their mean."""
    solved: bool | None = None
    """Whether the task is solved; None where nothing in its reward says so."""
    told: str = ""
    """For people, in a line: what happened in the environment."""
    tests: Tests | None = None
    parts: tuple[PartScore, ...] = ()
    flags: tuple[str, ...] = ()
    """Signs of a program that attacks its sandbox, e.g. `worker_died`."""
    failures: tuple[str, ...] = ()
    """For people: the first tests that did not hold. Agents never see this."""
    isolation: str | None = None
    """How the program was run: `sealed` or `unsafe`."""
    schemes: tuple[Scheme, ...] = ()
    """How the agents' functions work together: all that matches, by precedence."""
    seconds: float = 0.0

    @model_validator(mode="before")
    @classmethod
    def _read_older_records(cls, data: Any) -> Any:
        """`solved` was called `passed`."""
        if isinstance(data, dict) and "passed" in data and "solved" not in data:
            return {"solved" if key == "passed" else key: value for key, value in data.items()}
        return data

    @property
    def scheme(self) -> str | None:
        """The cooperation scheme that takes precedence; None where there is none to tell."""
        return self.schemes[0].name if self.schemes else None
