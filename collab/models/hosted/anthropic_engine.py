"""Claude, through Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from collab.errors import ModelError, ModelRefused, ModelUnavailable, RecipeError
from collab.models.base import Progress, Request
from collab.models.hosted.engine import HostedEngine, Reply, parse_token_count
from collab.models.hosted.errors import Rejection, TransientError, error_of, html_error, is_html
from collab.models.keys import redact_line
from collab.models.tool_text import plain_message
from collab.recipe.hosted import AnthropicSpec
from collab.records import FinishReason, Message, Sampling

if TYPE_CHECKING:
    import anthropic


def messages_of(history: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages in the form of the Messages API. If there are several, the last one is marked
    for the prompt cache.

    Tool results and the user message after them become one message, as the API requires.
    """
    messages: list[dict[str, Any]] = []
    after_tool = False
    for message in history:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if after_tool and role == "user":
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
        after_tool = message.role == "tool"
    if len(history) > 1:
        messages[-1]["content"][-1] |= CACHE_MARK
    return messages


CACHE_MARK = {"cache_control": {"type": "ephemeral"}}
"""Marks a block for the prompt cache."""


def text_block(text: str) -> dict[str, Any]:
    """Return a block of text in the form of the API."""
    return {"type": "text", "text": text}


def _blocks(message: Message) -> list[dict[str, Any]]:
    """Return a message's blocks. Calls that the model wrote as text stay text."""
    if message.answers and not message.answers.is_text:
        identity = {"type": "tool_result", "tool_use_id": message.answers.id}
        return [{**identity, "content": message.content}]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in message.tool_calls
        if not call.is_text
    ]
    if not calls:
        return [text_block(plain_message(message).content)]
    text = [text_block(message.content)] if message.content.strip() else []
    return [*text, *calls]


def _add_event(reply: Reply, event: Any) -> str:
    """Add one event and return its text."""
    if event.type == "message_start":
        usage = event.message.usage
        reply.has_begun, reply.model = True, event.message.model
        reply.prompt_tokens = parse_token_count(usage.input_tokens)
        reply.cache_read = parse_token_count(usage.cache_read_input_tokens)
        reply.cache_written = parse_token_count(usage.cache_creation_input_tokens)
    elif event.type == "content_block_delta" and event.delta.type == "text_delta":
        text: str = event.delta.text
        reply.text += text
        return text
    elif event.type == "content_block_start" and event.content_block.type == "tool_use":
        call = reply.calls[event.index]
        call.id, call.name = event.content_block.id, event.content_block.name
    elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
        reply.calls[event.index].arguments += event.delta.partial_json
    elif event.type == "message_delta":
        reply.stop_reason = event.delta.stop_reason or ""
        reply.new_tokens = parse_token_count(event.usage.output_tokens)
        reply.has_counts = True
    return ""


@contextmanager
def sdk_errors(peer: str, key: str) -> Iterator[None]:
    """Context manager that turns the SDK's errors into collab's errors, without `key` in a
    message.
    """
    import anthropic
    import httpx2

    try:
        yield
    except (ModelError, TransientError):
        raise
    except anthropic.APIStatusError as error:
        raise error_of(peer, _rejection(error, key), AnthropicSpec.key) from None
    except (anthropic.APIError, httpx2.HTTPError, OSError, ValueError, RecursionError) as error:
        summary = f"{peer}: {type(error).__name__}"
        unavailable = ModelUnavailable(f"{peer}: {_reason(error, key)}", summary)
        raise TransientError(unavailable) from None


def _rejection(error: anthropic.APIStatusError, key: str) -> Rejection:
    """Describe a refusal of the API. Within a stream the status is 200, and `kind` is its type."""
    return Rejection(
        status=error.status_code,
        kind=redact_line(str(_error_object(error).get("type", "")), key),
        reason=_reason(error, key),
        retry_after=error.response.headers.get("retry-after", ""),
    )


def _error_object(error: Exception) -> dict[str, Any]:
    """Return the object `error` of an error's body, empty without one."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    return inner if isinstance(inner, dict) else {}


def _reason(error: Exception, key: str) -> str:
    """Return the error's message, in one line."""
    words = str(_error_object(error).get("message") or error or type(error).__name__)
    request: Any = getattr(error, "request", None) if is_html(words) else None
    if request is not None:
        return html_error(str(request.url).removesuffix("/v1/messages"))
    if error.__cause__ and str(error.__cause__) not in words:
        words += f" ({error.__cause__})"
    return redact_line(words, key)


class AnthropicEngine(HostedEngine):
    """Claude. It returns no tokens and no log-probabilities, so it can only be a frozen agent.

    Settings are sent if they differ from the defaults, since newer models refuse some of them.
    `seed` has no counterpart.
    """

    max_temperature = 1.0
    finish_reasons: dict[str, FinishReason] = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
    }
    tool_call_reason = "tool_use"
    cache_read_price, cache_write_price = 0.1, 1.25  # of the cache that lasts five minutes
    spec: AnthropicSpec

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Check also that no stop string is white space only, which Claude does not support."""
        super().check(sampling, adapter)
        for string in sampling.stop:
            if not string.strip():
                raise RecipeError(
                    f"{self.name} does not support the stop string {string!r}, whitespace only; "
                    "remove it from sampling.stop for its agents"
                )

    def _connect(self) -> Any:
        import httpx2
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

        from collab.models.http_client import MAX_ANSWER_BYTES, size_limit_hook

        limit = size_limit_hook(
            httpx2, MAX_ANSWER_BYTES, lambda reason: ModelError(f"{self.peer}: {reason}")
        )
        # collab has its own time limits and retries.
        return AsyncAnthropic(
            api_key=self._key,
            base_url=self._url,
            timeout=None,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(
                headers={"accept-encoding": "identity"},
                event_hooks={"response": [limit]},
            ),
        )

    async def _fill_reply(self, request: Request, reply: Reply, progress: Progress | None) -> None:
        body = body_of(self.spec.name, request)
        with sdk_errors(self.peer, self._key):
            stream = await self._client.messages.create(**body, stream=True)
            async with stream:
                await self._read_events(stream, _add_event, reply, request, progress)
            if reply.stop_reason == "refusal":
                raise ModelRefused(f"{self.spec.name} declined to answer (stop_reason refusal)")
            if not reply.has_begun:
                sent_html = "html" in stream.response.headers.get("content-type", "")
                page = f": {html_error(str(self._client.base_url))}"
                why = page if sent_html else " of the Messages API"
                raise ValueError(f"the answer contains no event{why}")
            if not reply.stop_reason:
                raise ValueError("the answer broke off")


def body_of(model: str, request: Request) -> dict[str, Any]:
    """Return the arguments of the SDK's `messages.create`.

    The system message is the same for every problem, and an agent's history for its next turn,
    so both are marked for Anthropic's prompt cache. Messages without text, e.g. an agent's empty
    answer, are left out: the API refuses them.
    """
    sent = [m for m in request.messages if m.content.strip() or m.tool_calls or m.answers]
    system = "\n\n".join(m.content for m in sent if m.role == "system")
    history = [m for m in sent if m.role != "system"]
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": sampling.max_new_tokens,
        "messages": messages_of(history),
    }
    if request.tools:
        body["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.parameters}
            for t in request.tools
        ]
        if not request.may_call:
            body["tool_choice"] = {"type": "none"}
    if system:
        body["system"] = [text_block(system) | CACHE_MARK]
    # Later SDKs have no arguments for these.
    changed = sampling.model_dump(exclude={"max_new_tokens", "stop"}, exclude_defaults=True)
    if changed:
        body["extra_body"] = changed
    if sampling.stop:
        body["stop_sequences"] = list(sampling.stop)
    return body
