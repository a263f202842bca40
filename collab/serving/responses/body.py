"""A request for a response."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from collab.serving.asking import Asked, Said
from collab.serving.reading import Body, Common, Part, Role, read, text_of
from collab.serving.refusal import invalid
from collab.serving.settings import Settings

_TEXTS = ("input_text", "output_text", "text")


class Item(Body):
    """A message, or what agents wrote for an earlier answer, which is passed over."""

    type: Literal["message", "reasoning"] = "message"
    role: Role = "user"
    content: str | list[Part] | None = None


class Format(Body):
    type: str = "text"


class Text(Body):
    format: Format | None = None


class ResponseBody(Common):
    input: str | Annotated[list[Item], Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    text: Text | None = None
    conversation: Any = None


def read_response(body: bytes, settings: Settings) -> Asked:
    """What a response is asked for.

    Raises:
        Refused: it is malformed, or asks for what no team can give.
    """
    asked = read(ResponseBody, body)
    asked.refuse_the_impossible()
    _refuse_the_impossible(asked)
    said = asked.asked(_messages(asked), "input", settings)
    return replace(said, most_tokens=asked.max_output_tokens)


def _messages(asked: ResponseBody) -> list[Said]:
    first = [Said("system", asked.instructions)] if asked.instructions else []
    if isinstance(asked.input, str):
        return [*first, Said("user", asked.input)]
    return first + [
        Said(item.role, text_of(item.content, f"input[{number}].content", _TEXTS))
        for number, item in enumerate(asked.input)
        if item.type == "message"
    ]


def _refuse_the_impossible(asked: ResponseBody) -> None:
    form = asked.text.format.type if asked.text and asked.text.format else "text"
    if form != "text":
        raise invalid("a team answers in text", "text.format", "unsupported_value")
    if asked.conversation is not None:
        raise invalid(
            "nothing is stored here; send the whole conversation",
            "conversation",
            "unsupported_value",
        )
