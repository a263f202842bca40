"""One attempt of a team at a problem, and what it is worth."""

from __future__ import annotations

from math import fsum
from typing import Literal

from collab.records.base import Record
from collab.records.failure import Failure
from collab.records.score import Score
from collab.records.turn import Decision, Turn

WhenSolved = Literal["absorb", "stop", "continue"]
"""What becomes of the turns after the one that solves the task: `TeamSpec.when_solved`."""


Further = Literal["", "solo", "continuation"]
"""Why an episode was played beside those that are compared: `solo`, to see what is reached without
some agents; `continuation`, to see what a state on another episode's way is worth."""


class Episode(Record):
    """One attempt of a team at a problem."""

    id: str
    task: str
    """The problem's address."""
    team: str
    group: int = 0
    """Episodes of one problem that are compared with each other share a group."""
    sample: int = 0
    """Position within the group, 0..G-1."""
    seed: int = 0
    turns: tuple[Turn, ...] = ()
    horizon: int | None = None
    """H, the turns that the team could have played; None where a record does not say it."""
    when_solved: WhenSolved = "absorb"
    """How turns that were not played count, since the task was solved before them."""
    further: Further = ""
    """Where set, nothing is learned from it, and its return is not that of the team as it plays."""
    failure: Failure | None = None
    """Why the episode could not be finished; its rewards are then not to be used."""
    started: str = ""
    seconds: float = 0.0

    @property
    def score(self) -> Score | None:
        """The last turn's score."""
        return self.turns[-1].score if self.turns else None

    @property
    def reward(self) -> float | None:
        """The last turn's joint reward."""
        return self.score.reward if self.score else None

    @property
    def solved(self) -> bool:
        return bool(self.score and self.score.solved)

    @property
    def solved_by_turn(self) -> tuple[bool, ...]:
        """Whether the task was solved after each turn; empty where a reward does not say so.

        A turn that was not played, as the task was solved before it, counts as solved.
        """
        told = tuple(turn.score.solved for turn in self.turns if turn.score)
        known = tuple(solved for solved in told if solved is not None)
        if len(known) < len(self.turns):
            return ()
        return known + (True,) * self.unplayed

    @property
    def unplayed(self) -> int:
        """How many turns were left when the task was solved."""
        if self.horizon is None or not self.solved:
            return 0
        return max(0, self.horizon - self.turns[-1].index - 1)

    @property
    def absorbed(self) -> int:
        """How many turns were not played and count as the last one that was played."""
        return self.unplayed if self.when_solved == "absorb" else 0

    @property
    def rewards(self) -> tuple[float, ...]:
        """The joint reward of every turn that counts; empty unless all that were played have one.

        By default a solved task is an absorbing state: its reward counts for the turns that were
        not played too, so that nothing is lost by solving a task early.
        """
        played = tuple(turn.score.reward for turn in self.turns if turn.score)
        if not played or len(played) < len(self.turns):
            return ()
        return played + played[-1:] * self.absorbed

    @property
    def joint_return(self) -> float | None:
        """R_0, the undiscounted sum of `rewards`; None without any."""
        return fsum(self.rewards) if self.rewards else None

    def return_of(self, agent: str) -> float:
        """What the agent itself earned in the turns that were played, undiscounted."""
        scores = [turn.score for turn in self.turns if turn.score]
        return fsum(score.by_agent.get(agent, score.reward) for score in scores)

    @property
    def largest_return(self) -> float | None:
        """The largest return that this team could have been given; None without a score."""
        largest = [turn.score.maximum for turn in self.turns if turn.score]
        if not largest:
            return None
        left = 0 if self.horizon is None else max(0, self.horizon - len(largest))
        return fsum(largest) + left * largest[-1]

    def decisions(self, agent: str) -> list[Decision]:
        """Everything `agent` did, in order."""
        return [d for turn in self.turns for d in turn.decisions if d.agent == agent]
