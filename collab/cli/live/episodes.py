"""What is under way and what is finished of a run's episodes, counted from its events."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from collab.cli.live.pace import so_far, time_left
from collab.cli.screen.episode import out_of
from collab.records import Decision, Episode, Record
from collab.runtime.events import AgentActed, AgentActing, AgentProgress, EpisodeFinished
from collab.runtime.summary import CUT, FEW, truncated
from collab.stats import mean

KEPT = 2000
"""Characters that are kept of the text of a response under way."""


@dataclass
class Acting:
    """An agent at work."""

    turn: int
    since: float
    tokens: int = 0
    started: float = 0.0
    """When its first token was seen; waiting for the batch is not its speed."""
    text: str = ""
    """The end of its response so far, where the engine tells it."""


@dataclass
class Episodes:
    """The episodes of a run, or of a team that is evaluated."""

    planned: int = 0
    finished: int = 0
    acting: dict[tuple[str, str], Acting] = field(default_factory=dict)
    """The agents at work, by episode and name."""
    since: float | None = None
    """When the first agent was asked; its model was loaded before."""
    cost: float | None = None
    """US dollars, where an engine knows its price."""
    _begun_with: int = field(init=False)
    _responded: int = 0
    _responses: Counter[str] = field(default_factory=Counter)
    _cut: Counter[str] = field(default_factory=Counter)
    _returns: list[float] = field(default_factory=list)
    _largest: float = 0.0
    _solvable: int = 0
    _solved: int = 0

    def __post_init__(self) -> None:
        self._begun_with = self.finished

    @property
    def tokens(self) -> int:
        """New tokens of all responses, with those that are under way."""
        return self._responded + sum(state.tokens for state in list(self.acting.values()))

    def see(self, event: Record) -> None:
        """Count an event; one of another kind changes nothing."""
        now = time.monotonic()
        match event:
            case AgentActing():
                self.since = self.since or now
                self.acting[event.episode, event.agent] = Acting(event.turn, now)
            case AgentProgress():
                if state := self.acting.get((event.episode, event.agent)):
                    state.tokens = event.new_tokens
                    state.started = state.started or now
                    state.text = (state.text + event.text)[-KEPT:]
            case AgentActed():
                self.acting.pop((event.episode, event.decision.agent), None)
                self._count(event.decision)
            case EpisodeFinished():
                self._finish(event)

    def _count(self, decision: Decision) -> None:
        used, agent = decision.action.usage, decision.agent
        self._responded += used.new_tokens
        self._responses[agent] += 1
        self._cut[agent] += decision.action.finish_reason == "length"
        if used.cost is not None:
            self.cost = (self.cost or 0.0) + used.cost

    def _finish(self, event: EpisodeFinished) -> None:
        episode = event.episode
        for key in [key for key in self.acting if key[0] == episode.id]:
            del self.acting[key]  # a failure leaves agents that never answer
        self.finished += 1
        if self.since is None:
            self.since = _began(episode)
        self._solvable += bool(episode.score and episode.score.solved is not None)
        self._solved += episode.solved
        if episode.failure is None and episode.joint_return is not None:
            self._returns.append(episode.joint_return)
            self._largest = max(self._largest, episode.largest_return or 0.0)

    def text(self) -> str:
        """How many are finished, how many of those that can be solved are, and what they earned."""
        solved = f", {self._solved} of {self._solvable} solved" if self._solvable else ""
        earned = f", return {out_of(mean(self._returns), self._largest)}" if self._returns else ""
        return f"{self.finished} of {self.planned} episodes{solved}{earned}"

    def speed(self) -> str:
        """Tokens a second, time, what is left of it, and what it cost; "" before any was taken."""
        seconds = time.monotonic() - self.since if self.since else 0.0
        if seconds < 1:
            return ""
        told = [f"{self.tokens / seconds:,.0f} tokens/s"] if self.tokens else []
        told.append(so_far(seconds))
        done = self.finished - self._begun_with
        told += time_left(seconds, done, self.planned - self.finished)
        if self.cost is not None:
            told.append(f"${self.cost:.4f}")
        return ", ".join(told)

    def cut_off(self) -> list[str]:
        """A warning for each agent of whose responses many have no end of their own."""
        return [
            truncated(agent, self._cut[agent] / count)
            for agent, count in self._responses.items()
            if count >= FEW and self._cut[agent] >= CUT * count
        ]


def _began(episode: Episode) -> float | None:
    """When an episode that another process has played began, by this process's clock."""
    with suppress(ValueError):
        ago = datetime.now().timestamp() - datetime.fromisoformat(episode.started).timestamp()
        return time.monotonic() - max(0.0, ago)
    return None
