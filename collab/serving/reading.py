"""Converts a request's JSON to one problem for one team, or refuses it and names the path."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from collab.records import Sampling
from collab.serving.refusal import invalid
from collab.serving.settings import Settings
from collab.wording import plain_reason


@dataclass(frozen=True)
class RequestMessage:
    """One message of the conversation in a request."""

    role: str
    text: str


@dataclass(frozen=True)
class TeamQuestion:
    """Holds one request to a team, as a problem and settings."""

    model: str
    text: str
    """The last user message, with the system messages before it."""
    place: str = "messages"
    """The path of the request's field with the messages."""
    earlier: tuple[RequestMessage, ...] = ()
    """Earlier messages of the conversation."""
    fields: dict[str, FieldValue] = field(default_factory=dict)
    seed: int | None = None
    max_new_tokens: int | None = None
    """Maximum number of new tokens per response, at most the agent's own limit."""
    stop: tuple[str, ...] = ()
    """Strings before which each response ends, in addition to the agent's own."""
    temperature: float | None = None
    top_p: float | None = None
    stream: bool = False
    include_usage: bool = False
    warnings: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)
    """Id of the answer and its episode. Never the client's `x-request-id`, which may repeat."""

    def sampling(self, settings: Sampling) -> Sampling:
        """Return an agent's sampling settings, changed by this request."""
        changes: dict[str, Any] = {"temperature": self.temperature, "top_p": self.top_p}
        changes["stop"] = (*settings.stop, *self.stop)
        if self.max_new_tokens is not None:
            changes["max_new_tokens"] = min(self.max_new_tokens, settings.max_new_tokens)
        set_here = {name: value for name, value in changes.items() if value is not None}
        return settings.model_copy(update=set_here)


def transcript(earlier: Sequence[RequestMessage], text: str) -> str:
    """Return a conversation as one string, with the last message at the end."""
    turns = [f"{message.role.capitalize()}: {message.text}" for message in earlier]
    return "\n\n".join([*turns, text])


Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
FieldValue = str | bool | Int64 | FiniteFloat | list[str]

_MAX_NAME_CHARACTERS = 40


class Body(BaseModel):
    """A part of the JSON that a client sends. Unknown keys are recorded."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())


class ContentPart(Body):
    """A piece of a message."""

    type: str
    text: str = ""


class Format(Body):
    """The form of the answer."""

    type: str = "text"


class OwnFields(Body):
    """The object `collab` of a request, beyond OpenAI's interface."""

    model_config = ConfigDict(extra="forbid", strict=True)

    fields: dict[str, FieldValue] = {}


NO_LOGPROBS = "answers of several agents have no log-probabilities; leave it out"


class CommonBody(Body):
    """The fields that both forms of a request share."""

    model: str
    stream: bool | None = None
    temperature: Annotated[FiniteFloat, Field(ge=0, le=2)] | None = None
    top_p: Annotated[FiniteFloat, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    top_logprobs: int | None = None
    user: Any = None
    metadata: Any = None
    collab: OwnFields = OwnFields()

    def make_question(
        self, messages: Sequence[RequestMessage], place: str, settings: Settings
    ) -> TeamQuestion:
        """Return the request as a question. `place` is the path of the field with the messages.

        Raises:
            Refused: the messages are not a conversation that a team can answer.
        """
        text, earlier = read_conversation(messages, place)
        return TeamQuestion(
            model=self.model,
            text=text,
            place=place,
            earlier=earlier,
            fields=self.collab.fields,
            seed=self.seed,
            temperature=self.temperature if settings.allow_sampling else None,
            top_p=self.top_p if settings.allow_sampling else None,
            stream=bool(self.stream),
            warnings=self.ignored_warnings(allow_sampling=settings.allow_sampling),
        )

    def unsupported_fields(self) -> list[tuple[str, Any, str]]:
        """Return the path of each field that teams might not support, whether the field's value is
        refused, and the remedy.
        """
        calls = self.tool_choice not in (None, "none", "auto")
        return [
            ("store", self.store, "the server stores nothing; leave it out"),
            ("background", self.background, "the server answers at once; leave it out"),
            (
                "previous_response_id",
                self.previous_response_id,
                "send the whole conversation, as many clients do with store=false",
            ),
            ("top_logprobs", self.top_logprobs, NO_LOGPROBS),
            ("tool_choice", calls, "a team calls no tools of the client; set it to 'none'"),
        ]

    def ignored_warnings(self, *, allow_sampling: bool) -> tuple[str, ...]:
        """Return a warning for each field of the request that is ignored."""
        extra = self.model_extra or {}
        ignored = [name for name, value in extra.items() if value is not None]
        if self.tools:
            ignored.append("tools")
        if not allow_sampling:
            ignored += [
                name for name in ("temperature", "top_p") if getattr(self, name) is not None
            ]
        return tuple(f"{shorten_name(name)} was ignored" for name in ignored)


BodyT = TypeVar("BodyT", bound=CommonBody)


def read_body_as(kind: type[BodyT], body: bytes) -> BodyT:
    """Return the request in a body.

    Raises:
        Refused: the body is not valid JSON of that kind, or no team can follow it. The message
            names the path, and repeats nothing of the body.
    """
    try:
        request = kind.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        if errors[0]["type"] == "json_invalid":
            raise invalid("the body is not JSON, or is nested too deeply") from None
        data = from_json(body)
        places = [_locate(one["loc"], data, is_missing=one["type"] == "missing") for one in errors]
        path, reason = _most_specific_error(errors, places)
        message = f"{path}: {reason}" if path else "send a JSON object"
        raise invalid(message, path or None) from None
    for param, is_impossible, remedy in request.unsupported_fields():
        if is_impossible:
            raise invalid(f"{param} cannot be followed: {remedy}", param, "unsupported_value")
    return request


def _most_specific_error(
    errors: Sequence[Mapping[str, Any]], places: Sequence[list[int | str]]
) -> tuple[str, str]:
    """Return the path and reason of the error that says most: the deepest, of a fitting type."""
    ranks = [
        (len(place), not error["type"].endswith("_type"))
        for error, place in zip(errors, places, strict=True)
    ]
    number = ranks.index(max(ranks))
    is_role = places[number][-1:] == ["role"]
    remedy = "; put the results of tools into the user's message" * is_role
    return _format_path(places[number]), plain_reason(errors[number]["msg"]) + remedy


def _locate(location: Sequence[int | str], body: Any, *, is_missing: bool) -> list[int | str]:
    """Return a location's keys that belong to the body, without the types that pydantic tried."""
    place: list[int | str] = []
    for key in location:
        is_item = isinstance(body, list) and isinstance(key, int)
        if is_item or (isinstance(body, dict) and key in body):
            place.append(key)
            body = body[key]
    return [*place, location[-1]] if is_missing else place


def _format_path(location: Iterable[int | str]) -> str:
    """Write a path like OpenAI, `messages[0].content`, and shorten the client's own keys."""
    keys = (f"[{k}]" if isinstance(k, int) else f".{shorten_name(k)}" for k in location)
    return "".join(keys).removeprefix(".")


def shorten_name(name: str) -> str:
    """Return a client's own name for an error text: printable, and of limited length."""
    plain = "".join(c if c.isprintable() else "?" for c in name[: _MAX_NAME_CHARACTERS + 1])
    return plain if len(plain) <= _MAX_NAME_CHARACTERS else f"{plain[:_MAX_NAME_CHARACTERS]}..."


def text_of(content: str | list[ContentPart] | None, path: str, kinds: tuple[str, ...]) -> str:
    """Return the text of a message's content, joined from its parts.

    Raises:
        Refused: the content has parts that are not text.
    """
    if isinstance(content, str) or content is None:
        return content or ""
    for number, part in enumerate(content):
        if part.type not in kinds:
            raise invalid(
                "a team reads no images, audio or files; send text parts only",
                f"{path}[{number}].type",
                "unsupported_value",
            )
    return "".join(part.text for part in content)


Role = Literal["system", "developer", "user", "assistant"]

_INSTRUCTION_ROLES = ("system", "developer")


def read_conversation(
    messages: Sequence[RequestMessage], param: str
) -> tuple[str, tuple[RequestMessage, ...]]:
    """Return the text for the team, which begins with the instructions, and the earlier messages.

    Raises:
        Refused: the last message is not the user's, or is empty.
    """
    spoken = [message for message in messages if message.role not in _INSTRUCTION_ROLES]
    if not spoken or spoken[-1].role != "user":
        raise invalid("the last message must be the user's", param)
    if not spoken[-1].text.strip():
        raise invalid("the user's message has no text", param)
    instructions = [
        message.text for message in messages if message.role in _INSTRUCTION_ROLES and message.text
    ]
    return "\n\n".join([*instructions, spoken[-1].text]), tuple(spoken[:-1])
