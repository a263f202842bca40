"""An evaluation in numbers: what `eval.json` holds, `--json` ends with and the tables show.

Shares are from 0 to 1. The names of `metrics`:

solved, pass@K                 the share that is solved; the unbiased estimate for K tries
solved.turn_K                  the share that is solved after turn K, for several turns
NAME@K                         the best of K tries, as the reward declares it: accuracy, coop
return, return.share           the joint rewards of all turns, in points and of their maximum
final.share                    the last turn's joint reward of its maximum, for several turns
level.NAME, part.NAME          the last turn's reward by level, of its maximum, and by part;
                               a level without points counts by the values of its parts
"""

from __future__ import annotations

from typing import Any, Literal

from collab.naming import FolderName
from collab.records import Failure, Record


class Estimate(Record):
    """A mean over tasks with its interval."""

    mean: float
    low: float
    high: float
    tasks: int
    """That have a value; where episodes failed these can be fewer than were evaluated."""


class Speed(Record):
    """Of all agents running together, from the times that the episodes were under way."""

    seconds: float
    """Wall time in which at least one episode was under way."""
    tokens_per_second: float
    """New tokens of all agents."""
    seconds_per_response: float
    """By joint response: one turn of the whole team."""


class TeamResult(Record):
    """One team's numbers."""

    label: FolderName
    """The team's name in the tables."""
    folder: FolderName | None
    """Within the evaluation's; None where nothing is kept."""
    team: str
    protocol: str
    turns: int
    models: dict[str, str]
    """By agent."""
    identity: str
    """Digest of all that an episode hangs on besides its task and sample."""
    planned: int
    episodes: int
    """Finished ones, failed ones among them."""
    failed: int
    failures: dict[str, int]
    """Failed episodes by their error's type."""
    failure: Failure | None
    """The first of them."""
    maximum: float | None
    """Of one turn's joint reward, for this team."""
    most: float | None = None
    """Of a game, whose turns do not each pay the maximum: the largest return that it can give."""
    metrics: dict[str, Estimate]
    speed: Speed | None
    concurrency: int
    """Episodes under way at the same time; speed depends on it."""
    agents: dict[str, dict[str, Any]]
    """By agent, and feedback source that asks a model: responses, tokens and money."""
    schemes: dict[str, float]
    """By way of working together: its share of the scores that show one; empty for none."""

    @property
    def total_failure(self) -> str | None:
        """The count and the first failure of a team that finished no episode; else None."""
        if self.failure is None or self.failed < self.episodes:
            return None
        failed = f"every episode of {self.label} failed ({self.failed} of {self.episodes})"
        return f"{failed}; first failure: {self.failure.type}: {self.failure.message}"

    @property
    def largest_return(self) -> float | None:
        """Turns x maximum, or what a game says; None where nothing was scored."""
        if self.most is not None:
            return self.most
        return None if self.maximum is None else self.turns * self.maximum


class Difference(Record):
    """A team less the first one, paired by task."""

    team: str
    baseline: str
    metrics: dict[str, Estimate]


class Numbers(Record):
    """All numbers of an evaluation."""

    evaluation: str
    status: Literal["running", "done", "interrupted", "failed"]
    suite: str
    tasks: tuple[str, ...]
    samples: int
    k: tuple[int, ...]
    seed: int
    levels: dict[str, tuple[str, ...]]
    """The reward's parts by level."""
    confidence: float
    """Of all intervals."""
    notes: tuple[str, ...]
    """In plain words: what is left out, and why."""
    command: tuple[str, ...]
    versions: dict[str, str]
    teams: tuple[TeamResult, ...]
    """Those that have been evaluated, in the order given."""
    differences: tuple[Difference, ...]
