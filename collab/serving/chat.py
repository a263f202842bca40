"""OpenAI's chat completions: the request and the reply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

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
from collab.serving.reply import (
    DONE_EVENT,
    TeamReply,
    TextDelta,
    hidden_tokens,
    is_truncated,
    sse_event,
)
from collab.serving.settings import Settings


class ChatMessage(Body):
    role: Role
    content: str | list[ContentPart] | None = None


class StreamOptions(Body):
    include_usage: bool = False


StopString = Annotated[str, Field(min_length=1)]


class ChatBody(CommonBody):
    """The body of a request for a chat completion."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stop: StopString | Annotated[list[StopString], Field(max_length=16)] | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    logprobs: bool | None = None
    response_format: Format | None = None
    modalities: list[str] | None = None
    audio: Any = None
    function_call: Any = None

    def unsupported_fields(self) -> list[tuple[str, Any, str]]:
        form = self.response_format.type if self.response_format else "text"
        calls = self.function_call not in (None, "none", "auto")
        return [
            *super().unsupported_fields(),
            ("function_call", calls, "a team cannot call the client's functions; leave it out"),
            ("n", self.n not in (None, 1), "a team gives one answer; ask again for another"),
            ("logprobs", self.logprobs, NO_LOGPROBS),
            ("response_format", form != "text", "a team answers in text; set its type to 'text'"),
            ("modalities", self.modalities not in (None, ["text"]), "leave it out"),
            ("audio", self.audio is not None, "a team answers in text; leave it out"),
        ]

    def as_question(self, settings: Settings) -> TeamQuestion:
        messages = [
            RequestMessage(
                message.role, text_of(message.content, f"messages[{number}].content", ("text",))
            )
            for number, message in enumerate(self.messages)
        ]
        limits = [n for n in (self.max_tokens, self.max_completion_tokens) if n is not None]
        return replace(
            self.make_question(messages, "messages", settings),
            max_new_tokens=min(limits, default=None),
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            include_usage=bool(self.stream_options and self.stream_options.include_usage),
        )


class ChatReply(TeamReply):
    """One chat completion."""

    _has_reasoning = False

    def whole(self, episode: Episode) -> dict[str, Any]:
        reasoning = _reasoning_text(episode) if self._shows_agents else None
        message = {
            "role": "assistant",
            "content": episode.answer,
            "refusal": None,
            **_reasoning_fields(reasoning),
        }
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(episode)}
        return {
            **self._common_fields("chat.completion"),
            "choices": [{**choice, "logprobs": None}],
            "usage": _usage(episode),
            **({"collab": self._details(episode)} if self._with_agents else {}),
        }

    def begin(self) -> Iterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})

    def _answer_events(self, text: str) -> Iterator[str]:
        yield self._chunk({"content": text})

    def _agent_events(self, delta: TextDelta) -> Iterator[str]:
        heading = _heading(delta.agent, self._has_reasoning) if delta.begins else ""
        text = heading + delta.text
        self._has_reasoning = True
        if text:
            yield self._chunk(
                _reasoning_fields(text), collab={"agent": delta.agent, "turn": delta.turn}
            )

    def end(self, episode: Episode) -> Iterator[str]:
        if rest := self._unsent_answer(episode):
            yield from self._answer_events(rest)
        yield self._chunk({}, _finish_reason(episode), self._details(episode))
        if self._question.include_usage:
            head = self._common_fields("chat.completion.chunk")
            yield sse_event({**head, "choices": [], "usage": _usage(episode)})
        yield DONE_EVENT

    def fail(self, refused: Refused) -> Iterator[str]:
        yield sse_event(refused.body)

    def _common_fields(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._question.id}",
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
        return sse_event(
            {**self._common_fields("chat.completion.chunk"), "choices": [choice], **more}
        )


def _reasoning_fields(text: str | None) -> dict[str, Any]:
    """Return the text under both names by which clients read reasoning."""
    return {} if text is None else {"reasoning": text, "reasoning_content": text}


def _reasoning_text(episode: Episode) -> str:
    return "".join(
        _heading(decision.agent, number > 0) + decision.action.text
        for number, decision in enumerate(episode.decisions())
    )


def _heading(agent: str, follows: bool) -> str:
    separator = "\n\n" if follows else ""
    return f"{separator}{agent}:\n"


def _finish_reason(episode: Episode) -> str:
    return "length" if is_truncated(episode) else "stop"


def _usage(episode: Episode) -> dict[str, Any]:
    usage = usage_of(episode)
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.new_tokens,
        "total_tokens": usage.prompt_tokens + usage.new_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": hidden_tokens(episode)},
    }
