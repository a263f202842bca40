"""What is under way and what is finished of a run's episodes, counted from its events."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from collab.records import Record
from collab.runtime.events import AgentActed, AgentActing, AgentProgress, EpisodeFinished


@dataclass
class Acting:
    """An agent at work."""

    turn: int
    since: float
    tokens: int = 0
    started: float = 0.0
    """When its first token was seen; waiting for the batch is not its speed."""


@dataclass
class Episodes:
    """The episodes of a run, or of a team that is evaluated."""

    planned: int = 0
    finished: int = 0
    acting: dict[tuple[str, str], Acting] = field(default_factory=dict)
    """The agents at work, by episode and name."""
    since: float = field(default_factory=time.monotonic)
    _responded: int = 0
    _solvable: int = 0
    _solved: int = 0

    @property
    def tokens(self) -> int:
        """New tokens of all responses, with those that are under way."""
        return self._responded + sum(state.tokens for state in list(self.acting.values()))

    def see(self, event: Record) -> None:
        """Count an event; one of another kind changes nothing."""
        now = time.monotonic()
        match event:
            case AgentActing():
                self.acting[event.episode, event.agent] = Acting(event.turn, now)
            case AgentProgress():
                if state := self.acting.get((event.episode, event.agent)):
                    state.tokens = event.new_tokens
                    state.started = state.started or now
            case AgentActed():
                self.acting.pop((event.episode, event.decision.agent), None)
                self._responded += event.decision.action.usage.new_tokens
            case EpisodeFinished():
                self._finish(event)

    def _finish(self, event: EpisodeFinished) -> None:
        episode = event.episode
        for key in [key for key in self.acting if key[0] == episode.id]:
            del self.acting[key]  # a failure leaves agents that never answer
        self.finished += 1
        self._solvable += bool(episode.score and episode.score.solved is not None)
        self._solved += episode.solved

    def text(self) -> str:
        """How many are finished, and how many of those that can be solved are."""
        solved = f", {self._solved} of {self._solvable} solved" if self._solvable else ""
        return f"{self.finished} of {self.planned} episodes{solved}"
