"""OpenAI's Responses: the request and the reply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from collab.records import Episode
from collab.runtime.summary import usage_of
from collab.serving.reading import (
    NO_LOGPROBS,
    Body,
    CommonBody,
    ContentPart,
    Format,
    RequestMessage,
    Role,
    TeamQuestion,
    text_of,
)
from collab.serving.refusal import Refused
from collab.serving.reply import TeamReply, TextDelta, hidden_tokens, is_truncated, sse_event
from collab.serving.settings import Settings
from collab.serving.team import ServedTeam

_TEXT_TYPES = ("input_text", "output_text", "text")


class InputItem(Body):
    """A message, or the agents' answers of an earlier response, which are ignored."""

    type: Literal["message", "reasoning"] = "message"
    role: Role = "user"
    content: str | list[ContentPart] | None = None


_LOGPROBS = "message.output_text.logprobs"


class TextOptions(Body):
    format: Format | None = None


class ResponseBody(CommonBody):
    input: str | Annotated[list[InputItem], Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    text: TextOptions | None = None
    conversation: Any = None
    prompt: Any = None
    include: list[str] | None = None

    def unsupported_fields(self) -> list[tuple[str, Any, str]]:
        form = self.text.format.type if self.text and self.text.format else "text"
        return [
            *super().unsupported_fields(),
            ("text.format", form != "text", "a team answers in text; leave it out"),
            ("conversation", self.conversation is not None, "send the whole conversation"),
            ("include", _LOGPROBS in (self.include or ()), NO_LOGPROBS),
            ("prompt", self.prompt is not None, "the server stores no prompts; send its text"),
        ]

    def as_question(self, settings: Settings) -> TeamQuestion:
        items = self.input if isinstance(self.input, list) else [InputItem(content=self.input)]
        messages = [RequestMessage("system", self.instructions)] if self.instructions else []
        messages += [
            RequestMessage(
                item.role, text_of(item.content, f"input[{number}].content", _TEXT_TYPES)
            )
            for number, item in enumerate(items)
            if item.type == "message"
        ]
        question = self.make_question(messages, "input", settings)
        return replace(question, max_new_tokens=self.max_output_tokens)


ResponseStatus = Literal["in_progress", "completed", "incomplete"]


def reasoning_item(answer: str, number: int, agent: str, text: str | None) -> dict[str, Any]:
    """Return one agent's response as an item. `text` is None while the agent writes."""
    return {
        "type": "reasoning",
        "id": f"rs_{answer}_{number}",
        "summary": [],
        "content": [] if text is None else [{"type": "reasoning_text", "text": text}],
        "status": "in_progress" if text is None else "completed",
        "agent": {"agent_name": agent},
    }


def message_item(answer: str, status: ResponseStatus, text: str | None) -> dict[str, Any]:
    """Return the joint answer as an item. `text` is None until it exists."""
    return {
        "type": "message",
        "id": f"msg_{answer}",
        "role": "assistant",
        "status": status,
        "phase": "final_answer",
        "content": [] if text is None else [part(text)],
    }


def part(text: str) -> dict[str, Any]:
    """Return a string as the content part of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class ResponseReply(TeamReply):
    """One response. Only the joint answer is a message, since clients join all messages."""

    def __init__(self, team: ServedTeam, question: TeamQuestion, *, with_agents: bool) -> None:
        super().__init__(team, question, with_agents=with_agents)
        self._next_number = 0
        self._completed_items: list[dict[str, Any]] = []
        self._has_begun = False

    def whole(self, episode: Episode) -> dict[str, Any]:
        decisions = episode.decisions() if self._shows_agents else []
        items = [
            reasoning_item(self._question.id, number, decision.agent, decision.action.text)
            for number, decision in enumerate(decisions)
        ]
        status = _status(episode)
        answer = message_item(self._question.id, status, episode.answer)
        return self._response(status, [*items, answer], episode)

    def begin(self) -> Iterator[str]:
        yield self._event("response.created", response=self._response("in_progress", []))
        yield self._event("response.in_progress", response=self._response("in_progress", []))

    def _agent_events(self, delta: TextDelta) -> Iterator[str]:
        place = len(self._completed_items)
        if delta.begins:
            item = reasoning_item(self._question.id, place, delta.agent, None)
            yield self._event("response.output_item.added", output_index=place, item=item)
        position = {
            "item_id": f"rs_{self._question.id}_{place}",
            "output_index": place,
            "content_index": 0,
        }
        if delta.text:
            yield self._event("response.reasoning_text.delta", **position, delta=delta.text)
        if delta.ends is not None:
            text = delta.ends.action.text
            item = reasoning_item(self._question.id, place, delta.agent, text)
            yield self._event("response.reasoning_text.done", **position, text=text)
            yield self._event("response.output_item.done", output_index=place, item=item)
            self._completed_items.append(item)

    def end(self, episode: Episode) -> Iterator[str]:
        joint, status = episode.answer, _status(episode)
        yield from self._answer_events(self._unsent_answer(episode))
        position = self._message_position()
        yield self._event("response.output_text.done", **position, text=joint, logprobs=[])
        yield self._event("response.content_part.done", **position, part=part(joint))
        item = message_item(self._question.id, status, joint)
        yield self._event(
            "response.output_item.done", output_index=len(self._completed_items), item=item
        )
        whole = self._response(status, [*self._completed_items, item], episode)
        yield self._event(f"response.{status}", response=whole)

    def fail(self, refused: Refused) -> Iterator[str]:
        error = {"code": "server_error", "message": refused.message}
        failed = {**self._response("failed", self._completed_items), "error": error}
        yield self._event("response.failed", response=failed)
        flat = {"code": refused.reason, "message": refused.message, "param": refused.param}
        yield self._event("error", **flat, **refused.body)  # OpenAI's clients raise at `error`

    def _answer_events(self, text: str) -> Iterator[str]:
        """Yield the events of a piece of the message, which begins with the first one."""
        if not self._has_begun:
            self._has_begun = True
            item = message_item(self._question.id, "in_progress", None)
            place = len(self._completed_items)
            yield self._event("response.output_item.added", output_index=place, item=item)
            yield self._event(
                "response.content_part.added", **self._message_position(), part=part("")
            )
        if text:
            yield self._event(
                "response.output_text.delta", **self._message_position(), delta=text, logprobs=[]
            )

    def _message_position(self) -> dict[str, Any]:
        item = f"msg_{self._question.id}"
        return {"item_id": item, "output_index": len(self._completed_items), "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> str:
        number, self._next_number = self._next_number, self._next_number + 1
        return sse_event({"type": kind, "sequence_number": number, **fields}, kind)

    def _response(
        self, status: str, output: list[dict[str, Any]], episode: Episode | None = None
    ) -> dict[str, Any]:
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        details = None if episode is None else self._details(episode)
        return {
            "id": f"resp_{self._question.id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": cut,
            "instructions": None,
            "max_output_tokens": self._question.max_new_tokens,
            "metadata": {},
            "model": self._team.name,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "temperature": self._question.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "top_p": self._question.top_p,
            "truncation": "disabled",
            "usage": None if episode is None else _usage(episode),
            **({} if details is None else {"collab": details}),
        }


def _status(episode: Episode) -> ResponseStatus:
    return "incomplete" if is_truncated(episode) else "completed"


def _usage(episode: Episode) -> dict[str, Any]:
    usage = usage_of(episode)
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.new_tokens,
        "output_tokens_details": {"reasoning_tokens": hidden_tokens(episode)},
        "total_tokens": usage.prompt_tokens + usage.new_tokens,
    }
