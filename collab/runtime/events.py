"""The typed stream of a run's events, read by the console, the JSON output, the record and the
trainer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from collab.records import Decision, Episode, Failure, Feedback, Record, Score


class RunStarted(Record):
    type: Literal["run.started"] = "run.started"
    run: str
    folder: str | None
    team: str
    agents: tuple[str, ...]
    models: dict[str, str]
    """Model of each agent."""
    tasks: tuple[str, ...]
    samples: int
    turns: int
    seed: int
    isolation: str | None
    versions: dict[str, str]


class EpisodeStarted(Record):
    type: Literal["episode.started"] = "episode.started"
    episode: str
    task: str
    group: int
    sample: int


class AgentActing(Record):
    """An agent's request was passed to its model."""

    type: Literal["agent.acting"] = "agent.acting"
    episode: str
    turn: int
    round: int
    agent: str


class AgentProgress(Record):
    """A response is being generated. Only sent to listeners that ask for it."""

    type: Literal["agent.progress"] = "agent.progress"
    episode: str
    agent: str
    new_tokens: int
    text: str
    """New text, if the engine reports it."""


class AgentActed(Record):
    type: Literal["agent.acted"] = "agent.acted"
    episode: str
    turn: int
    decision: Decision


class TurnScored(Record):
    type: Literal["turn.scored"] = "turn.scored"
    episode: str
    turn: int
    artefacts: dict[str, str]
    joint: str
    score: Score | None


class FeedbackGiven(Record):
    type: Literal["feedback.given"] = "feedback.given"
    episode: str
    turn: int
    feedback: dict[str, tuple[Feedback, ...]]
    failures: tuple[Failure, ...]


class EpisodeFinished(Record):
    type: Literal["episode.finished"] = "episode.finished"
    episode: Episode


class RunFinished(Record):
    type: Literal["run.finished"] = "run.finished"
    run: str
    status: Literal["done", "interrupted", "failed"]
    summary: dict[str, Any]


Event = Annotated[
    RunStarted
    | EpisodeStarted
    | AgentActing
    | AgentProgress
    | AgentActed
    | TurnScored
    | FeedbackGiven
    | EpisodeFinished
    | RunFinished,
    Field(discriminator="type"),
]

Emit = Callable[[Event], None]
