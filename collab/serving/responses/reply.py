"""A response of a team: its joint answer is the message, what agents wrote are reasoning items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collab.records import Episode
from collab.serving import sse
from collab.serving.asking import Asked
from collab.serving.narration import Words
from collab.serving.refusal import Refused
from collab.serving.reply import TeamReply
from collab.serving.responses.items import Status, message, part, reasoning
from collab.serving.team import ServedTeam
from collab.serving.usage import is_cut, spent, unspoken


class ResponseReply(TeamReply):
    """One response. Agents' texts are no messages, since clients join the texts of all messages."""

    def __init__(self, team: ServedTeam, asked: Asked, *, all_of_it: bool) -> None:
        super().__init__(team, asked, all_of_it=all_of_it)
        self._number = 0
        """Of the next event."""
        self._done: list[dict[str, Any]] = []
        """The items that are whole."""
        self._answers = False
        """Whether the message has begun."""

    def whole(self, episode: Episode) -> dict[str, Any]:
        decisions = [] if self._team.is_direct else [d for t in episode.turns for d in t.decisions]
        items = [
            reasoning(self._asked.id, number, decision.agent, decision.action.text)
            for number, decision in enumerate(decisions)
        ]
        status = _status(episode)
        answer = message(self._asked.id, status, episode.turns[-1].joint)
        return self._response(status, [*items, answer], episode)

    def begin(self) -> Iterator[str]:
        yield self._event("response.created", response=self._response("in_progress", []))
        yield self._event("response.in_progress", response=self._response("in_progress", []))

    def words(self, words: Words) -> Iterator[str]:
        self._check(words)
        if self._team.is_direct:
            if text := self._answer.add(words.text):
                yield from self._say(text)
            return
        place = len(self._done)
        if words.begins:
            item = reasoning(self._asked.id, place, words.agent, None)
            yield self._event("response.output_item.added", output_index=place, item=item)
        at = {"item_id": f"rs_{self._asked.id}_{place}", "output_index": place, "content_index": 0}
        if words.text:
            yield self._event("response.reasoning_text.delta", **at, delta=words.text)
        if words.ends is not None:
            text = words.ends.action.text
            item = reasoning(self._asked.id, place, words.agent, text)
            yield self._event("response.reasoning_text.done", **at, text=text)
            yield self._event("response.output_item.done", output_index=place, item=item)
            self._done.append(item)

    def end(self, episode: Episode) -> Iterator[str]:
        joint, status = episode.turns[-1].joint, _status(episode)
        yield from self._say(self._rest(episode))
        at = self._at()
        yield self._event("response.output_text.done", **at, text=joint, logprobs=[])
        yield self._event("response.content_part.done", **at, part=part(joint))
        item = message(self._asked.id, status, joint)
        yield self._event("response.output_item.done", output_index=len(self._done), item=item)
        whole = self._response(status, [*self._done, item], episode)
        yield self._event(f"response.{status}", response=whole)

    def fail(self, refused: Refused) -> Iterator[str]:
        error = {"code": "server_error", "message": refused.message}
        failed = {**self._response("failed", self._done), "error": error}
        yield self._event("response.failed", response=failed)

    def _say(self, text: str) -> Iterator[str]:
        """A piece of the message, which begins with the first one."""
        if not self._answers:
            self._answers = True
            item = message(self._asked.id, "in_progress", None)
            place = len(self._done)
            yield self._event("response.output_item.added", output_index=place, item=item)
            yield self._event("response.content_part.added", **self._at(), part=part(""))
        if text:
            yield self._event("response.output_text.delta", **self._at(), delta=text, logprobs=[])

    def _at(self) -> dict[str, Any]:
        item = f"msg_{self._asked.id}"
        return {"item_id": item, "output_index": len(self._done), "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> str:
        number, self._number = self._number, self._number + 1
        return sse.event({"type": kind, "sequence_number": number, **fields}, kind)

    def _response(
        self, status: str, output: list[dict[str, Any]], episode: Episode | None = None
    ) -> dict[str, Any]:
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        told = None if episode is None else self._details(episode)
        return {
            "id": f"resp_{self._asked.id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": cut,
            "instructions": None,
            "max_output_tokens": self._asked.most_tokens,
            "metadata": {},
            "model": self._team.name,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": self._asked.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_p": self._asked.top_p,
            "truncation": "disabled",
            "usage": None if episode is None else _usage(episode),
            **({} if told is None else {"collab": told}),
        }


def _status(episode: Episode) -> Status:
    return "incomplete" if is_cut(episode) else "completed"


def _usage(episode: Episode) -> dict[str, Any]:
    usage = spent(episode)
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.new_tokens,
        "output_tokens_details": {"reasoning_tokens": unspoken(episode)},
        "total_tokens": usage.prompt_tokens + usage.new_tokens,
    }
