"""Where the time of a step goes, worked out from the runtime's events."""

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
    """Measures for how long some episode was being sampled, judged or given feedback.

    The seconds of different kinds of work overlap where episodes do different things at once.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("sampling", "judging", "feedback"), 0.0)
        self._doing: dict[str, set[tuple[str, str]]] = {work: set() for work in self.seconds}
        self._since: dict[str, float] = {}

    def see(self, event: Event) -> None:
        """Take note of what happened, at the moment at which it did."""
        match event:
            case AgentActing():
                self._end("judging", event.episode)
                self._end("feedback", event.episode)
                self._begin("sampling", event.episode, event.agent)
            case AgentActed():
                self._end("sampling", event.episode, event.decision.agent)
                if all(episode != event.episode for episode, _ in self._doing["sampling"]):
                    self._begin("judging", event.episode)
            case TurnScored():
                self._end("judging", event.episode)
                self._begin("feedback", event.episode)
            case FeedbackGiven():
                self._end("feedback", event.episode)
            case EpisodeFinished():
                self._end_all(event.episode.id)
            case _:
                pass

    def _end_all(self, episode: str) -> None:
        for work, doing in self._doing.items():
            for _, agent in [entry for entry in doing if entry[0] == episode]:
                self._end(work, episode, agent)

    def _begin(self, work: str, episode: str, agent: str = "") -> None:
        if not self._doing[work]:
            self._since[work] = time.perf_counter()
        self._doing[work].add((episode, agent))

    def _end(self, work: str, episode: str, agent: str = "") -> None:
        if (episode, agent) in self._doing[work]:
            self._doing[work].remove((episode, agent))
            if not self._doing[work]:
                self.seconds[work] += time.perf_counter() - self._since[work]
