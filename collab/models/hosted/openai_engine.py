"""Client for servers with OpenAI's chat completions API: vLLM, llama.cpp, Ollama, hosted ones."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from collab.errors import ModelError, ModelRefused, ModelUnavailable
from collab.models.base import Capabilities, Progress, Request
from collab.models.event_stream import event_data
from collab.models.hosted.engine import HostedEngine, Reply, parse_token_count
from collab.models.hosted.errors import (
    Rejection,
    TransientError,
    error_of,
    html_error,
    is_html,
    parse_error_body,
)
from collab.models.keys import MAX_LINE_LENGTH, redact, redact_line
from collab.models.tool_text import plain_message, plain_messages, tool_schemas
from collab.recipe.documents import parse_json
from collab.recipe.hosted import OpenAISpec
from collab.records import FinishReason, Message

if TYPE_CHECKING:
    from httpx import Response

SEED_LIMIT = 2**31

REFUSAL_STATUSES = {400, 422}
"""HTTP statuses that servers use to refuse a field of a request."""

TOKEN_FIELDS: dict[str, Any] = {
    "logprobs": True,
    "return_token_ids": True,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
"""Fields for servers that record tokens. They are sent unless a setting replaces them, so a
server's defaults cannot change the distribution.
"""


class Dialect:
    """The request fields that one server accepts.

    Temperature and top_p are sent, since servers' defaults differ. If a server refuses a field
    that is not essential, later requests omit it.
    """

    def __init__(self, spec: OpenAISpec) -> None:
        self._spec = spec
        self._limit_field = "max_tokens"
        self._refused_fields: set[str] = set()
        self._tools_as_text = False
        """True if tools are described in the messages, because the server has refused them as a
        field."""

    def body(self, request: Request) -> dict[str, Any]:
        """Return the JSON body of one request."""
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._spec.name,
            "messages": self._messages(request),
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": request.seed % SEED_LIMIT,
            self._limit_field: sampling.max_new_tokens,
        }
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.top_k:
            body["top_k"] = sampling.top_k
        if self._spec.tokens:
            body = {**TOKEN_FIELDS, **body}
        if request.tools and not self._tools_as_text:
            body["tools"] = tool_schemas(request.tools)
            if not request.may_call:
                body["tool_choice"] = "none"
        return {field: value for field, value in body.items() if field not in self._refused_fields}

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        if self._tools_as_text:
            return [{"role": m.role, "content": m.content} for m in plain_messages(request)]
        return [_api_message(m) for m in request.messages]

    def learn(self, rejection: Rejection, body: dict[str, Any]) -> bool:
        """Remember which form of `body` the server rejected. Return True if the request can be sent
        in another form."""
        if rejection.status not in REFUSAL_STATUSES:
            return False
        if "max_completion_tokens" in rejection.reason and "max_tokens" in body:
            self._limit_field = "max_completion_tokens"
            return True
        if "tools" in body and re.search(r"\btools?\b|tool[-_]", rejection.reason):
            self._tools_as_text = True
            return True
        optional = {"stream_options", "seed"}  # token counts, and seeds that are not promised
        optional |= {field for field in ("temperature", "top_p") if body.get(field) == 1.0}
        named = {
            field
            for field in optional & body.keys()
            if re.search(rf"\b{field}\b", rejection.reason)
        }
        self._refused_fields |= named
        return bool(named)


def _api_message(message: Message) -> dict[str, Any]:
    """Convert a message with its tool calls. Calls that the model wrote as text stay text."""
    if message.answers and not message.answers.is_text:
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
        if not call.is_text
    ]
    if calls:
        return {"role": "assistant", "content": message.content, "tool_calls": calls}
    text = plain_message(message)
    return {"role": text.role, "content": text.content}


def _rejection(response: Response, status: int, text: str, key: str) -> Rejection:
    """Describe a refusal, an error status or an error event, without the key."""
    kind, reason = parse_error_body(text, key)
    if response.has_redirect_location:
        reason = f"it redirects to {response.headers['location']}; is the URL right?"
    reason = html_error(_address(response)) if is_html(reason) else redact_line(reason, key)
    wait = response.headers.get("retry-after", "")
    return Rejection(status, redact_line(kind, key), reason, wait)


def _address(response: Response) -> str:
    return str(response.url).removesuffix("/chat/completions")


async def _events(response: Response, key: str) -> AsyncIterator[dict[str, Any]]:
    if "json" in response.headers.get("content-type", ""):
        answer = _parse_event(response, await response.aread(), key)
        if "choices" not in answer:
            raise ValueError(f"an answer without choices: {answer}")
        yield answer
        return
    async for data in event_data(response):
        yield _parse_event(response, data, key)


def _parse_event(response: Response, data: bytes, key: str) -> dict[str, Any]:
    event = redact(parse_json(data), key)
    if not isinstance(event, dict):
        raise ValueError(f"an event that is not an object: {event!r:.80}")
    if event.get("error"):
        code = event["error"].get("code") if isinstance(event["error"], dict) else None
        status = code if isinstance(code, int) else 500
        raise _rejection(response, status, json.dumps(event), key)
    return event


def _add_event(reply: Reply, event: dict[str, Any]) -> str:
    """Add one event and return its text."""
    reply.has_begun = True
    reply.model = event.get("model") or reply.model
    reply.prompt_ids += event.get("prompt_token_ids") or []
    if usage := event.get("usage"):
        _add_usage(reply, usage)
    if not event.get("choices"):
        return ""
    choice = event["choices"][0]
    delta = choice.get("delta") or choice.get("message") or {}
    content = delta.get("content", choice.get("text"))  # `text` in the older completions API
    if delta.get("refusal"):
        raise ModelRefused(f"{reply.model!s:.200} declined to answer: {delta['refusal']!s:.200}")
    # vLLM lists a choice's token ids, llama.cpp the id of each log-probability.
    entries = (choice.get("logprobs") or {}).get("content") or []
    reply.logprobs += [float(entry["logprob"]) for entry in entries]
    reply.token_ids += choice.get("token_ids") or [e["id"] for e in entries if "id" in e]
    reply.stop_reason = choice.get("finish_reason") or reply.stop_reason
    parts = (choice.get("delta"), choice.get("message"), content)
    reply.has_message |= any(part is not None for part in parts)
    if reply.stop_reason and not reply.has_message:
        raise ValueError("an answer without message, delta or text")
    for number, piece in enumerate(delta.get("tool_calls") or ()):
        place, function = piece.get("index", number), piece.get("function") or {}
        if piece.get("id") and function.get("name"):
            reply.last_call_ids[place] = piece["id"]
        call = reply.calls[place, reply.last_call_ids.get(place)]
        call.id = piece.get("id") or call.id
        call.name = function.get("name") or call.name
        arguments = function.get("arguments") or ""
        call.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)
    text = _text_of(content)
    reply.text += text
    return text


UNREAD_PARTS = {"thinking", "reasoning", "reference"}
"""Types of content parts that do not belong to the answer. Mistral sends the first and the last."""


def _text_of(content: Any) -> str:
    """Return the text of a message's content: a string, a list of parts, or nothing."""
    if isinstance(content, list):
        parts = [{"type": "text", "text": p} if isinstance(p, str) else p for p in content]
        return "".join(part["text"] for part in parts if part["type"] not in UNREAD_PARTS)
    if not isinstance(content, str | None):
        raise TypeError("content is neither text nor a list of parts")
    return content or ""


def _add_usage(reply: Reply, usage: dict[str, Any]) -> None:
    """Add the token counts. A count that is missing follows from the total, or stays 0, and then
    the costs are unknown.
    """
    details = usage.get("prompt_tokens_details") or {}
    prompt, new, total = (
        usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    if total is not None:
        prompt = total - new if prompt is None and new is not None else prompt
        new = total - prompt if new is None and prompt is not None else new
    reply.cache_read = parse_token_count(details.get("cached_tokens"))
    reply.prompt_tokens = max(0, parse_token_count(prompt) - reply.cache_read)
    reply.new_tokens = parse_token_count(new)
    reply.has_counts = prompt is not None and new is not None


LISTING_SECONDS = 5.0
MAX_LISTED_MODELS = 10


class OpenAIEngine(HostedEngine):
    """A server's model, for frozen agents.

    `seed` is sent, but servers treat it differently. With `tokens`, an action carries its token ids
    and log-probabilities, as the server defines them.
    """

    max_temperature = 2.0
    finish_reasons: dict[str, FinishReason] = {
        **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end", "end_turn"), "stop"),
        **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    }
    tool_call_reason = "tool_calls"
    spec: OpenAISpec

    def __init__(self, spec: OpenAISpec) -> None:
        super().__init__(spec)
        self.capabilities = Capabilities(tokens=spec.tokens)
        self._dialect = Dialect(spec)

    def _connect(self) -> Any:
        from collab.models.http_client import model_client

        return model_client(self._url, self._key, base_url=self._url)

    async def _fill_reply(self, request: Request, reply: Reply, progress: Progress | None) -> None:
        from httpx import ConnectError, HTTPError

        try:
            await self._send(request, reply, progress)
        except ConnectError as error:
            summary = f"{self.peer} cannot be reached"
            reason = f"{summary}: {self._reason(error)}; is the server running?"
            raise TransientError(ModelUnavailable(reason, summary)) from None
        except (HTTPError, OSError) as error:
            summary = f"{self.peer} closed the connection"
            reason = f"{summary}: {self._reason(error)}"
            raise TransientError(ModelUnavailable(reason, summary)) from None
        except ValueError as error:
            summary = f"{self.peer} did not send a chat completion"
            reason = f"{summary}: {self._reason(error)}"
            raise TransientError(ModelError(reason, summary)) from None

    async def _send(self, request: Request, reply: Reply, progress: Progress | None) -> None:
        """Send the request, leaving out each field that the server refuses, until it answers."""
        while True:
            body = self._dialect.body(request)
            try:
                await self._read_answer(body, request, reply, progress)
            except Rejection as rejection:
                if not reply.has_begun and self._dialect.learn(rejection, body):
                    continue
                if rejection.status == 404:
                    rejection.reason += f" ({await self._hint_for_404()})"
                raise error_of(self.peer, rejection, self.spec.key) from None
            if self.spec.tokens:
                self._check_tokens(reply)
            return

    async def _read_answer(
        self, body: dict[str, Any], request: Request, reply: Reply, progress: Progress | None
    ) -> None:
        """Send `body` and read the answer to its end. The key is hidden wherever the server echoes
        it.

        Raises:
            Rejection: there is an error status or event.
            ModelRefused: the model declines.
        """
        async with self._client.stream("POST", "chat/completions", json=body) as response:
            if not response.is_success:
                text = (await response.aread()).decode(errors="replace")
                raise _rejection(response, response.status_code, text, self._key)
            await self._read_events(
                _events(response, self._key), _add_event, reply, request, progress
            )
        if reply.stop_reason == "content_filter":
            raise ModelRefused(f"{body['model']} declined to answer (finish_reason content_filter)")
        if not reply.has_begun:
            is_page = "html" in response.headers.get("content-type", "")
            page = f": {html_error(_address(response))}" if is_page else ""
            raise ValueError(f"its answer contains no event{page}")
        if not reply.stop_reason:
            raise ConnectionError("the answer broke off without a finish_reason")

    def _check_tokens(self, reply: Reply) -> None:
        ids, logprobs = len(reply.token_ids), len(reply.logprobs)
        if ids != logprobs or ids == 0:
            raise ModelError(
                f"{self.peer} returned {ids} token ids and {logprobs} log-probabilities; set"
                " tokens: false for a server that does not send both"
            )

    async def _hint_for_404(self) -> str:
        """Return a hint for a 404: the server's models, or a question if they cannot be listed."""
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                response = await self._client.get("models")
            listed = parse_json(response.raise_for_status().content)
            names = [
                redact(str(model["id"]), self._key)[:MAX_LINE_LENGTH] for model in listed["data"]
            ]
        except Exception:
            return f"is {self._url} right, and the model {self.spec.name!r}?"
        more = ", ..." if len(names) > MAX_LISTED_MODELS else ""
        served = ", ".join(names[:MAX_LISTED_MODELS]) or "no model"
        return f"{self._url} serves {served}{more}"

    def _reason(self, error: Exception) -> str:
        return redact_line(str(error) or type(error).__name__, self._key)
