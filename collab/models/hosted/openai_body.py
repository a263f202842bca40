"""The body of a chat completion's request, without fields that its server does not understand."""

from __future__ import annotations

import json
import re
from typing import Any

from collab.models.base import Request
from collab.models.hosted.errors import Rejection
from collab.models.tool_text import fenced, plain
from collab.recipe.hosted import OpenAIModel
from collab.records import Message

LARGEST_SEED = 2**31

UNDERSTOOD = {400, 422}
"""Statuses with which servers refuse a field of a request."""

EXTENSIONS: dict[str, Any] = {
    "logprobs": True,
    "return_token_ids": True,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
"""For servers that record tokens: their own defaults must not change the distribution."""


class Dialect:
    """Fields of a request, as one server understands them.

    Temperature and top_p are always sent, since servers' defaults differ. A server that refuses a
    field whose value says nothing is asked without it from then on.
    """

    def __init__(self, spec: OpenAIModel) -> None:
        self._spec = spec
        self._limit = "max_tokens"
        self._refused: set[str] = set()
        self._told_in_text = False
        """From now on describe tools in the messages: the server does not take them as a field."""

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON of one request."""
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._spec.name,
            "messages": self._messages(request),
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed % LARGEST_SEED,
            self._limit: sampling.max_new_tokens,
        }
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.top_k:
            body["top_k"] = sampling.top_k
        if self._spec.tokens:
            body = {"top_k": -1, **body, **EXTENSIONS}
        if request.tools and not self._told_in_text:
            body["tools"] = [
                {"type": "function", "function": tool.model_dump()} for tool in request.tools
            ]
            if not request.may_call:
                body["tool_choice"] = "none"
        return {field: value for field, value in body.items() if field not in self._refused}

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        if self._told_in_text:
            return [{"role": m.role, "content": m.content} for m in fenced(request)]
        return [_message(m) for m in request.messages]

    def learn(self, said: Rejection, body: dict[str, Any]) -> bool:
        """Whether the rejection is of a field that can be asked for otherwise."""
        if said.status not in UNDERSTOOD:
            return False
        if "max_completion_tokens" in said.reason and "max_tokens" in body:
            self._limit = "max_completion_tokens"
            return True
        if "tools" in body and re.search(r"\btools?\b|tool[-_]", said.reason):
            self._told_in_text = True
            return True
        named = {field for field in _dispensable(body) if re.search(rf"\b{field}\b", said.reason)}
        self._refused |= named
        return bool(named)


def _message(message: Message) -> dict[str, Any]:
    """A message with its calls of tools; those that the model wrote as text stay text."""
    if message.answers and message.answers.id:
        return {
            "role": "tool",
            "tool_call_id": message.answers.id,
            "content": message.content,
        }
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in message.tool_calls
        if call.id
    ]
    if calls:
        return {"role": "assistant", "content": message.content, "tool_calls": calls}
    said = plain(message)
    return {"role": said.role, "content": said.content}


def _dispensable(body: dict[str, Any]) -> set[str]:
    """Fields that can be left out: counting, seeds that nobody promised, and defaults."""
    plain = {field for field in ("temperature", "top_p") if body.get(field) == 1.0}
    return ({"stream_options", "seed"} | plain) & body.keys()
