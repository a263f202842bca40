"""Clocks: the time that a step spends on each kind of work."""

from __future__ import annotations

import time

from collab.runtime import Event
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    EpisodeFinished,
    FeedbackGiven,
    TurnScored,
)


class StepTimer:
    """Measures, for each kind of work, how long at least one episode was being sampled, scored or
    given feedback.

    The times can overlap, because episodes do different kinds of work at the same time.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("sampling", "scoring", "feedback"), 0.0)
        self._doing: dict[str, set[tuple[str, str]]] = {work: set() for work in self.seconds}
        self._since: dict[str, float] = {}

    def see(self, event: Event) -> None:
        """Record an event at the present time."""
        match event:
            case AgentActing():
                self._end("scoring", event.episode)
                self._end("feedback", event.episode)
                self._begin("sampling", event.episode, event.agent)
            case AgentActed():
                self._end("sampling", event.episode, event.decision.agent)
                if all(episode != event.episode for episode, _ in self._doing["sampling"]):
                    self._begin("scoring", event.episode)
            case TurnScored():
                self._end("scoring", event.episode)
                self._begin("feedback", event.episode)
            case FeedbackGiven():
                self._end("feedback", event.episode)
            case EpisodeFinished():
                for work, doing in self._doing.items():
                    for episode, agent in [
                        entry for entry in doing if entry[0] == event.episode.id
                    ]:
                        self._end(work, episode, agent)
            case _:
                pass

    def _begin(self, work: str, episode: str, agent: str = "") -> None:
        if not self._doing[work]:
            self._since[work] = time.perf_counter()
        self._doing[work].add((episode, agent))

    def _end(self, work: str, episode: str, agent: str = "") -> None:
        if (episode, agent) in self._doing[work]:
            self._doing[work].remove((episode, agent))
            if not self._doing[work]:
                self.seconds[work] += time.perf_counter() - self._since[work]
