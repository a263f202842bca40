"""Typed events of a run, for the console, the JSON output, the record and the trainer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from collab.records import Decision, Episode, Failure, Feedback, Record, Score, Text


class RunStarted(Record):
    """A run has started: the first event."""

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
    trainer: str = ""
    """The main settings of a training run in words, or "" for other runs."""
    warnings: tuple[str, ...] = ()
    """Settings of a training run that will not work as intended."""


class EpisodeStarted(Record):
    """An episode has started."""

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
    """An agent has given a response."""

    type: Literal["agent.acted"] = "agent.acted"
    episode: str
    turn: int
    decision: Decision


class TurnScored(Record):
    """A turn has ended, with its joint artifact and its score, None without a reward."""

    type: Literal["turn.scored"] = "turn.scored"
    episode: str
    turn: int
    artifacts: dict[str, Text]
    joint: Text
    score: Score | None


class FeedbackGiven(Record):
    """The feedback sources have answered after a turn, by agent."""

    type: Literal["feedback.given"] = "feedback.given"
    episode: str
    turn: int
    feedback: dict[str, tuple[Feedback, ...]]
    failures: tuple[Failure, ...]


class EpisodeFinished(Record):
    """An episode has ended, with or without a failure."""

    type: Literal["episode.finished"] = "episode.finished"
    episode: Episode


RunStatus = Literal["done", "interrupted", "failed"]


class RunFinished(Record):
    """A run has ended: the last event, with the summary of `run.json`."""

    type: Literal["run.finished"] = "run.finished"
    run: str
    status: RunStatus
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
