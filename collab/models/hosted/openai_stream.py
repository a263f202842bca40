"""Reads one answer of a chat completion: a stream of events, or one body where a server has none.

A shape that is not the protocol's raises ValueError.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from httpx import AsyncClient, Response

from collab.errors import ModelRefused
from collab.models.base import Progress, Request
from collab.models.event_stream import event_data
from collab.models.hosted.engine import ODD_SHAPE, Reply, count
from collab.models.hosted.errors import Rejection, is_page, page_at
from collab.models.keys import unkeyed, without_key
from collab.recipe.documents import parse_json

CHARACTERS_PER_TOKEN = 4
"""Characters that count as one token for progress, where the server tells none."""


class Rejected(Exception):
    """The server refused: an error status, or an error event within a stream."""

    def __init__(self, status: int, said: str, retry_after: str = "") -> None:
        super().__init__(said)
        self._status, self._said, self._retry_after = status, said, retry_after

    def rejection(self, key: str, url: str) -> Rejection:
        """What it said, without the key; `url` is where it was asked."""
        kind, reason = _explained(self._said, key)
        reason = page_at(url) if is_page(reason) else without_key(reason, key)
        return Rejection(self._status, without_key(kind, key), reason, self._retry_after)


async def read(
    client: AsyncClient,
    body: dict[str, Any],
    reply: Reply,
    request: Request,
    progress: Progress | None,
    *,
    key: str,
) -> None:
    """Send `body` and take the answer to its end; `key` is hidden where it is echoed.

    Raises Rejected for an error status or event, ModelRefused when the model declines.
    """
    async with client.stream("POST", "chat/completions", json=body) as response:
        if not response.is_success:
            said = (await response.aread()).decode(errors="replace")
            raise Rejected(response.status_code, said, response.headers.get("retry-after", ""))
        async for event in _events(response, key):
            try:
                text = _take(reply, event)
            except ODD_SHAPE as error:
                raise ValueError(f"an event of an unknown shape: {error!r}") from error
            if text and progress:
                count = len(reply.token_ids) or len(reply.text) // CHARACTERS_PER_TOKEN
                progress(request, count, text)
    if reply.stop_reason == "content_filter":
        raise ModelRefused(f"{body['model']} declined to answer (finish_reason content_filter)")
    if not reply.begun:
        raise ValueError(_without_events(response))
    if not reply.stop_reason:
        raise ConnectionError("the answer broke off")


async def list_models(client: AsyncClient) -> list[str]:
    """The names of what the server serves; raises whatever goes wrong."""
    response = await client.get("models")
    return [str(model["id"]) for model in response.raise_for_status().json()["data"]]


def _without_events(response: Response) -> str:
    kind = response.headers.get("content-type", "")
    if "html" in kind:
        url = str(response.url).removesuffix("/chat/completions")
        return f"its answer holds no event: {page_at(url)}"
    return f"its answer, of type {kind}, holds no event" if kind else "its answer is empty"


async def _events(response: Response, key: str) -> AsyncIterator[dict[str, Any]]:
    if "json" in response.headers.get("content-type", ""):
        answer = _parsed(await response.aread(), key)
        if "choices" not in answer:
            raise ValueError(f"an answer without choices: {answer}")
        yield answer
        return
    async for data in event_data(response):
        yield _parsed(data, key)


def _parsed(data: bytes, key: str) -> dict[str, Any]:
    event = unkeyed(parse_json(data), key)
    if not isinstance(event, dict):
        raise ValueError(f"an event that is no object: {event!r:.80}")
    if event.get("error"):
        code = event["error"].get("code") if isinstance(event["error"], dict) else None
        raise Rejected(code if isinstance(code, int) else 500, json.dumps(event))
    return event


def _take(reply: Reply, event: dict[str, Any]) -> str:
    """Add one event; returns the text that it brought."""
    reply.begun = True
    reply.model = event.get("model") or reply.model
    reply.prompt_ids += event.get("prompt_token_ids") or []
    if usage := event.get("usage"):
        _count(reply, usage)
    if not event.get("choices"):
        return ""
    choice = event["choices"][0]
    said = choice.get("delta") or choice.get("message") or {}
    if said.get("refusal"):
        raise ModelRefused(f"{reply.model} declined to answer: {said['refusal']!s:.200}")
    _take_tokens(reply, choice)
    reply.stop_reason = choice.get("finish_reason") or reply.stop_reason
    for number, piece in enumerate(said.get("tool_calls") or ()):
        call, function = reply.call(piece.get("index", number)), piece.get("function") or {}
        call.id = piece.get("id") or call.id
        call.name = function.get("name") or call.name
        call.arguments += function.get("arguments") or ""
    text: str = said.get("content") or ""
    reply.text += text
    return text


def _take_tokens(reply: Reply, choice: dict[str, Any]) -> None:
    """vLLM tells a choice's token ids, llama.cpp the id of each log-probability."""
    entries = (choice.get("logprobs") or {}).get("content") or []
    reply.logprobs += [float(entry["logprob"]) for entry in entries]
    reply.token_ids += choice.get("token_ids") or [e["id"] for e in entries if "id" in e]


def _count(reply: Reply, usage: dict[str, Any]) -> None:
    details = usage.get("prompt_tokens_details") or {}
    reply.cache_read = count(details.get("cached_tokens"))
    reply.prompt_tokens = count(usage["prompt_tokens"]) - reply.cache_read
    reply.new_tokens = count(usage["completion_tokens"])
    reply.counted = True


def _explained(said: str, key: str) -> tuple[str, str]:
    """The kind of an error and its reason, of the shapes that servers give them."""
    try:
        body = unkeyed(parse_json(said), key)
    except ValueError:
        return "", said
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", str(error)
    kinds = (error.get("code"), error.get("type"))
    kind = next((kind for kind in kinds if isinstance(kind, str)), "")
    reason = str(error.get("message") or error.get("detail") or said)
    param = error.get("param")
    return kind, f"{reason} ({param})" if param and str(param) not in reason else reason
