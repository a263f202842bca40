"""A request for a chat completion."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from collab.serving.asking import Asked, Said
from collab.serving.reading import Body, Common, Part, Role, read, text_of
from collab.serving.refusal import invalid
from collab.serving.settings import Settings


class Message(Body):
    role: Role
    content: str | list[Part] | None = None


class StreamOptions(Body):
    include_usage: bool = False


class ResponseFormat(Body):
    type: str = "text"


class ChatBody(Common):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    logprobs: bool | None = None
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None
    audio: Any = None


def read_chat(body: bytes, settings: Settings) -> Asked:
    """What a chat completion is asked for.

    Raises:
        Refused: it is malformed, or asks for what no team can give.
    """
    chat = read(ChatBody, body)
    chat.refuse_the_impossible()
    _refuse_the_impossible(chat)
    messages = [
        Said(message.role, text_of(message.content, f"messages[{number}].content", ("text",)))
        for number, message in enumerate(chat.messages)
    ]
    limits = [most for most in (chat.max_tokens, chat.max_completion_tokens) if most is not None]
    return replace(
        chat.asked(messages, "messages", settings),
        most_tokens=min(limits, default=None),
        include_usage=bool(chat.stream_options and chat.stream_options.include_usage),
    )


def _refuse_the_impossible(chat: ChatBody) -> None:
    form = chat.response_format.type if chat.response_format else "text"
    refused = [
        ("n", chat.n not in (None, 1), "a team gives one answer; ask again for another"),
        ("logprobs", bool(chat.logprobs), "an answer of several agents has none"),
        ("response_format", form != "text", "a team answers in text; set its type to 'text'"),
        ("modalities", chat.modalities not in (None, ["text"]), "a team answers in text"),
        ("audio", chat.audio is not None, "a team answers in text"),
    ]
    for param, is_refused, remedy in refused:
        if is_refused:
            raise invalid(f"{param} cannot be followed: {remedy}", param, "unsupported_value")
