"""The teams' answers: the common part of OpenAI's two forms, as JSON or as a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collab.records import Decision, Episode, Turn
from collab.runtime.events import AgentActed, AgentActing, AgentProgress, Event
from collab.runtime.summary import usage_of
from collab.serving.reading import TeamQuestion
from collab.serving.refusal import SERVER, Refused
from collab.serving.team import ServedTeam


def answer_decisions(episode: Episode) -> list[Decision]:
    """Return the last response of each agent whose artifact is in the joint one."""
    turn = episode.turns[-1]
    last = {decision.agent: decision for decision in turn.decisions}
    return [last[agent] for agent in turn.contributions if agent in last]


def hidden_tokens(episode: Episode) -> int:
    """Return the number of new tokens that are not part of the answer."""
    answers = sum(decision.action.usage.new_tokens for decision in answer_decisions(episode))
    return usage_of(episode).new_tokens - answers


def is_truncated(episode: Episode) -> bool:
    """Return True if a response that is part of the answer was truncated."""
    return any(decision.action.is_truncated for decision in answer_decisions(episode))


@dataclass(frozen=True)
class TextDelta:
    """Text to add to one agent's streamed response."""

    agent: str
    turn: int
    text: str
    begins: bool
    """True if this is the beginning of the response."""
    ends: Decision | None = None
    """The whole response, with its last words."""
    differs: bool = False
    """True if the text sent so far is not the beginning of the whole response, so that nothing can
    follow. Whitespace at the ends does not count."""


class ResponseStream:
    """Streams the agents' answers as they are generated, one agent after the other.

    Agents of one round write at the same time. The first response of the first of them is streamed
    live. The other responses follow when all have ended. Answers are therefore never mixed, and the
    joined stream equals the text of the record.
    """

    def __init__(self) -> None:
        self._current: tuple[int, int, str] | None = None
        """Turn, round and agent of the move whose first response is streamed live."""
        self._is_live = False
        self._sent = ""

    def read_event(self, event: Event) -> Iterator[TextDelta]:
        """Yield the text that an event adds to the stream."""
        match event:
            case AgentActing(turn=turn, round=round_, agent=agent):
                place = (turn, round_, agent)
                if self._current is None:
                    self._current, self._is_live, self._sent = place, True, ""
                elif self._current == place:  # a further response of the same move
                    self._is_live = False
            case AgentProgress(agent=agent, text=text) if text and self._current and self._is_live:
                if self._current[2] == agent:
                    yield TextDelta(agent, self._current[0], text, begins=not self._sent)
                    self._sent += text
            case AgentActed(turn=turn, decision=decision) if not decision.action.failure:
                yield self._end(turn, decision)

    def _end(self, turn: int, decision: Decision) -> TextDelta:
        sent, whole = "", decision.action.text
        if self._current == (turn, decision.round, decision.agent):
            sent, self._current = self._sent, None
        follows = whole.startswith(sent)
        rest = whole[len(sent) :] if follows else ""
        differs = not follows and whole.strip() != sent.strip()
        return TextDelta(
            decision.agent, turn, rest, begins=not sent, ends=decision, differs=differs
        )


PING_COMMENT = ": still working\n\n"
"""A comment, which clients ignore and proxies count as activity."""

DONE_EVENT = "data: [DONE]\n\n"


def sse_event(data: Mapping[str, Any], kind: str = "") -> str:
    """Return one server-sent event as text. Line breaks in the data are escaped."""
    name = f"event: {kind}\n" if kind else ""
    return f"{name}data: {json.dumps(data, separators=(',', ':'))}\n\n"


def _agent_details(turn: Turn, decision: Decision) -> dict[str, Any]:
    last = [d for d in turn.decisions if d.agent == decision.agent][-1]
    action = decision.action
    return {
        "name": decision.agent,
        "turn": turn.index,
        "round": decision.round,
        "text": action.text,
        "artifact": turn.artifacts.get(decision.agent) if decision is last else None,
        "finish_reason": action.finish_reason,
        "usage": {
            "prompt_tokens": action.usage.prompt_tokens,
            "completion_tokens": action.usage.new_tokens,
        },
        "seconds": round(action.seconds, 3),
    }


class StripStream:
    """Strips a text while it is streamed. The result equals `str.strip` of the whole text."""

    def __init__(self) -> None:
        self._trailing = ""
        self.sent = ""

    def add(self, text: str) -> str:
        """Return the text to send now. Trailing whitespace waits until more text follows."""
        whole = self._trailing + text
        if not self.sent:
            whole = whole.lstrip()
        sent = whole.rstrip()
        self._trailing = whole[len(sent) :]
        self.sent += sent
        return sent


class TeamReply:
    """Parts that `ChatReply` and `ResponseReply` share. A stream yields server-sent events.

    `with_agents` adds each agent's response, as reasoning and in the object `collab`.
    """

    def __init__(self, team: ServedTeam, question: TeamQuestion, *, with_agents: bool) -> None:
        self._team, self._question = team, question
        self._with_agents = with_agents
        self._created = int(time.time())
        self._answer = StripStream()
        self._warnings: list[str] = []

    @property
    def _shows_agents(self) -> bool:
        """True if the agents' responses are sent in addition to the answer."""
        return self._with_agents and not self._team.is_direct

    def stream_delta(self, delta: TextDelta) -> Iterator[str]:
        """Yield the events of an agent's words: a part of the answer, or of what the agents say."""
        if delta.differs:
            self._warnings.append(
                f"the streamed text of {delta.agent} differs from the record; collab.agents has the"
                " recorded text"
            )
        if self._team.is_direct:
            if text := self._answer.add(delta.text):
                yield from self._answer_events(text)
        elif self._with_agents:
            yield from self._agent_events(delta)

    def _answer_events(self, text: str) -> Iterator[str]:
        """Yield the events of a part of the joint answer."""
        raise NotImplementedError

    def _agent_events(self, delta: TextDelta) -> Iterator[str]:
        """Yield the events of an agent's words, which are not part of the answer."""
        raise NotImplementedError

    def _unsent_answer(self, episode: Episode) -> str:
        """Return the unsent part of the joint answer.

        Raises:
            Refused: the sent text is not the beginning of the answer.
        """
        sent, joint = self._answer.sent, episode.answer
        if not joint.startswith(sent):
            message = "the streamed text is not the answer, e.g. after a retry; ask without stream"
            raise Refused(500, "stream_differs", message, kind=SERVER)
        return joint[len(sent) :]

    def _details(self, episode: Episode) -> dict[str, Any] | None:
        """Return the data of an episode except its answer, for clients that ask for it."""
        if not self._with_agents:
            return None
        return {
            "team": self._team.recipe.team.name,
            "episode": self._question.id,
            "seed": episode.seed,
            "seconds": round(episode.seconds, 3),
            "agents": [_agent_details(turn, d) for turn in episode.turns for d in turn.decisions],
            "warnings": [*self._question.warnings, *self._warnings],
        }
