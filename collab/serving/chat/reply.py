"""A chat completion of a team: the joint answer is the content, what agents wrote is reasoning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collab.records import Decision, Episode
from collab.serving import sse
from collab.serving.narration import Words
from collab.serving.refusal import Refused
from collab.serving.reply import TeamReply
from collab.serving.usage import is_cut, spent, unspoken


class ChatReply(TeamReply):
    """One chat completion."""

    _has_reasoned = False

    def whole(self, episode: Episode) -> dict[str, Any]:
        reasoning = None if self._team.is_direct else _reasoning(episode)
        message = {
            "role": "assistant",
            "content": episode.turns[-1].joint,
            "refusal": None,
            **_reasoned(reasoning),
        }
        choice = {"index": 0, "message": message, "finish_reason": _finish(episode)}
        return {
            **self._head("chat.completion"),
            "choices": [{**choice, "logprobs": None}],
            "usage": _usage(episode),
            **({"collab": self._details(episode)} if self._all_of_it else {}),
        }

    def begin(self) -> Iterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})

    def words(self, words: Words) -> Iterator[str]:
        self._check(words)
        if self._team.is_direct:
            if text := self._answer.add(words.text):
                yield self._chunk({"content": text})
            return
        heading = _heading(words.agent, self._has_reasoned) if words.begins else ""
        text = heading + words.text
        self._has_reasoned = True
        if text:
            told = {"agent": words.agent, "turn": words.turn}
            yield self._chunk(_reasoned(text), collab=told if self._all_of_it else None)

    def end(self, episode: Episode) -> Iterator[str]:
        if rest := self._rest(episode):
            yield self._chunk({"content": rest})
        yield self._chunk({}, _finish(episode), self._details(episode))
        if self._asked.include_usage:
            head = self._head("chat.completion.chunk")
            yield sse.event({**head, "choices": [], "usage": _usage(episode)})
        yield sse.DONE

    def fail(self, refused: Refused) -> Iterator[str]:
        yield sse.event(refused.body)

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._asked.id}",
            "object": kind,
            "created": self._created,
            "model": self._team.name,
        }

    def _chunk(
        self,
        delta: dict[str, Any],
        finish: str | None = None,
        collab: dict[str, Any] | None = None,
    ) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        more = {} if collab is None else {"collab": collab}
        return sse.event({**self._head("chat.completion.chunk"), "choices": [choice], **more})


def _reasoned(text: str | None) -> dict[str, Any]:
    """The same under both names that clients read it by."""
    return {} if text is None else {"reasoning": text, "reasoning_content": text}


def _reasoning(episode: Episode) -> str:
    decisions = [decision for turn in episode.turns for decision in turn.decisions]
    return "".join(_told(decision, number > 0) for number, decision in enumerate(decisions))


def _told(decision: Decision, follows: bool) -> str:
    return _heading(decision.agent, follows) + decision.action.text


def _heading(agent: str, follows: bool) -> str:
    separator = "\n\n" if follows else ""
    return f"{separator}{agent}:\n"


def _finish(episode: Episode) -> str:
    return "length" if is_cut(episode) else "stop"


def _usage(episode: Episode) -> dict[str, Any]:
    usage = spent(episode)
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.new_tokens,
        "total_tokens": usage.prompt_tokens + usage.new_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": unspoken(episode)},
    }
