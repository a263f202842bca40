"""From a team's events to text that can be sent on: agent after agent, in the record's order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collab.records import Decision
from collab.runtime.events import AgentActed, AgentActing, AgentProgress, Event


@dataclass(frozen=True)
class Words:
    """What was added to one agent's response."""

    agent: str
    turn: int
    text: str
    begins: bool
    """They are the first of the response."""
    ends: Decision | None = None
    """The whole response, with the last words of it."""
    differs: bool = False
    """What was told before is not the beginning of the whole, so that nothing could follow it;
    white space at the ends makes no difference."""


_Place = tuple[int, int, str, int]
"""Turn, round, agent, step."""


class Narrator:
    """Tells what agents write while they write it, one after the other.

    Agents of one round write at the same time. The first of them is told as it writes; what the
    others wrote follows when all have ended, so that nothing is mixed up, and a stream put together
    is the text that the record gives.
    """

    def __init__(self) -> None:
        self._now: tuple[int, int, str] | None = None
        self._step = -1
        self._told: dict[_Place, str] = {}

    def see(self, event: Event) -> Iterator[Words]:
        """The words that an event brings."""
        match event:
            case AgentActing(turn=turn, round=round_, agent=agent):
                if self._now is None:
                    self._now, self._step = (turn, round_, agent), -1
                if self._now == (turn, round_, agent):
                    self._step += 1
            case AgentProgress(agent=agent, text=text) if text and self._now:
                if self._now[2] == agent:
                    yield self._add((*self._now, self._step), text)
            case AgentActed(turn=turn, decision=decision) if not decision.action.failure:
                yield self._end(turn, decision)

    def _add(self, place: _Place, text: str) -> Words:
        before = self._told.get(place, "")
        self._told[place] = before + text
        return Words(place[2], place[0], text, begins=not before)

    def _end(self, turn: int, decision: Decision) -> Words:
        place = (turn, decision.round, decision.agent, decision.step)
        told, whole = self._told.pop(place, ""), decision.action.text
        if self._now == place[:3]:
            self._now = None
        follows = whole.startswith(told)
        rest = whole[len(told) :] if follows else ""
        differs = not follows and whole.strip() != told.strip()
        return Words(decision.agent, turn, rest, begins=not told, ends=decision, differs=differs)
