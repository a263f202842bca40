"""A local server with Anthropic's Messages API."""

from typing import Any

from support.local_server import Handler
from support.service import Behavior, Service, count_aloud, cut, malformed, slow, status

__all__ = [
    "Behavior", "ClaudeServer", "answer", "cut", "malformed", "slow", "status", "stream_error",
    "talk",
]  # fmt: skip

CONTEXT = 10_000
"""Characters of a prompt that `talk` reads."""


class ClaudeServer(Service):
    """A fake Claude that follows its behaviors."""

    def start(self, handler: Handler, prompt_tokens: int = 12, **cached: int) -> None:
        usage = {
            "input_tokens": prompt_tokens,
            "cache_read_input_tokens": cached.get("read", 0),
            "cache_creation_input_tokens": cached.get("written", 0),
            "output_tokens": 1,
        }
        message: dict[str, Any] = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test-1",
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        handler.begin_stream()
        _send(handler, "message_start", message=message)
        block = {"type": "text", "text": ""}
        _send(handler, "content_block_start", index=0, content_block=block)

    def say(self, handler: Handler, text: str) -> None:
        delta = {"type": "text_delta", "text": text}
        _send(handler, "content_block_delta", index=0, delta=delta)

    def end(self, handler: Handler, stop_reason: str, new_tokens: int) -> None:
        delta = {"stop_reason": stop_reason, "stop_sequence": None}
        _send(handler, "content_block_stop", index=0)
        _send(handler, "message_delta", delta=delta, usage={"output_tokens": new_tokens})
        _send(handler, "message_stop")

    def error(self, kind: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": message}}


def _send(handler: Handler, kind: str, **data: Any) -> None:
    handler.event({"type": kind, **data}, kind)


def answer(
    text: str,
    *,
    stop_reason: str = "end_turn",
    prompt_tokens: int = 12,
    new_tokens: int = 5,
    cache_read: int = 0,
    cache_written: int = 0,
    seconds: float = 0.0,
) -> Behavior:
    """Stream `text` line by line."""

    def behave(handler: Handler, server: ClaudeServer, body: dict[str, Any]) -> None:
        server.closing.wait(seconds)
        server.start(handler, prompt_tokens, read=cache_read, written=cache_written)
        for line in text.splitlines(keepends=True) or [""]:
            server.say(handler, line)
        server.end(handler, stop_reason, new_tokens)

    return behave


def ask_for(name: str, arguments: str, *, call: str = "toolu_1") -> Behavior:
    """Stream some text and a tool call with its arguments in two pieces."""

    def behave(handler: Handler, server: ClaudeServer, body: dict[str, Any]) -> None:
        server.start(handler)
        server.say(handler, "I ask.")
        _send(handler, "content_block_stop", index=0)
        block = {"type": "tool_use", "id": call, "name": name, "input": {}}
        _send(handler, "content_block_start", index=1, content_block=block)
        for piece in (arguments[:5], arguments[5:]):
            delta = {"type": "input_json_delta", "partial_json": piece}
            _send(handler, "content_block_delta", index=1, delta=delta)
        _send(handler, "content_block_stop", index=1)
        ended: dict[str, Any] = {"stop_reason": "tool_use", "stop_sequence": None}
        _send(handler, "message_delta", delta=ended, usage={"output_tokens": 9})
        _send(handler, "message_stop")

    return behave


def talk() -> Behavior:
    """Answer like a model, within the request's limits."""

    def behave(handler: Handler, server: ClaudeServer, body: dict[str, Any]) -> None:
        prompt = sum(len(m["content"][0]["text"]) for m in body["messages"])
        if prompt > CONTEXT:
            message = f"prompt is too long: {prompt} tokens > {CONTEXT} maximum"
            status(400, "invalid_request_error", message)(handler, server, body)
            return
        pieces, reason = count_aloud(body["max_tokens"], body.get("stop_sequences", []))
        server.start(handler, prompt)
        for piece in pieces:
            server.say(handler, piece)
        ended = {"stop": "stop_sequence", "length": "max_tokens"}[reason]
        server.end(handler, ended, len(pieces))

    return behave


def stream_error(kind: str = "overloaded_error", message: str = "Overloaded") -> Behavior:
    """Begin a stream that ends in an error event."""

    def behave(handler: Handler, server: ClaudeServer, body: dict[str, Any]) -> None:
        server.start(handler)
        handler.event(server.error(kind, message), "error")

    return behave
