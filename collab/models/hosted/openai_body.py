"""What a chat completion is asked with, and what a server was found not to understand."""

from __future__ import annotations

import re
from typing import Any

from collab.models.base import Request
from collab.models.hosted.errors import Rejection
from collab.models.tool_text import fenced
from collab.recipe.hosted import OpenAIModel

LARGEST_SEED = 2**31

UNDERSTOOD = {400, 422}
"""Statuses that a field can be refused with."""

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

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON of one request."""
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._spec.name,
            "messages": [{"role": m.role, "content": m.content} for m in fenced(request)],
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
        return {field: value for field, value in body.items() if field not in self._refused}

    def learn(self, said: Rejection, body: dict[str, Any]) -> bool:
        """Whether the rejection is of a field that can be asked for otherwise."""
        if said.status not in UNDERSTOOD:
            return False
        if "max_completion_tokens" in said.reason and "max_tokens" in body:
            self._limit = "max_completion_tokens"
            return True
        named = {field for field in _dispensable(body) if re.search(rf"\b{field}\b", said.reason)}
        self._refused |= named
        return bool(named)


def _dispensable(body: dict[str, Any]) -> set[str]:
    """Fields that can be left out: counting, seeds that nobody promised, and defaults."""
    plain = {field for field in ("temperature", "top_p") if body.get(field) == 1.0}
    return ({"stream_options", "seed"} | plain) & body.keys()
