"""One turn of a team: who did what, what came of it, and what each agent is told."""

from __future__ import annotations

from collab.records.action import Action
from collab.records.base import Record
from collab.records.failure import Failure
from collab.records.feedback import Feedback
from collab.records.message import Message
from collab.records.score import Score


class Decision(Record):
    """One agent acting once: what it newly observed, and what it did."""

    agent: str
    round: int = 0
    """Position within the turn; agents of one round act at the same time."""
    step: int = 0
    """Position within the agent's move; above 0 after a tool has answered."""
    saw: tuple[str, ...] = ()
    """The agents whose answers of this turn the agent was shown."""
    observation: tuple[Message, ...]
    """The messages added to the agent's history (the first one carries its role)."""
    action: Action
    given: bool = False
    """Taken over from another episode that drew it, or left empty since the agent was not asked:
    here it was not drawn, and is not learned."""


class Turn(Record):
    index: int
    decisions: tuple[Decision, ...]
    artefacts: dict[str, str] = {}
    """By agent: what its parser took from its last response of the turn."""
    joined: tuple[str, ...] | None = None
    """The agents whose artefacts make the joint one; None in records that hold all of them."""
    joint: str = ""
    """The joint artefact, e.g. the joined program."""
    score: Score | None = None
    feedback: dict[str, tuple[Feedback, ...]] = {}
    failures: tuple[Failure, ...] = ()
    """Failures that the episode survived, e.g. of an optional feedback source."""
    seconds: float = 0.0
