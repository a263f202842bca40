"""A local server with OpenAI's chat completions, and vLLM's token ids on request."""

import json
from typing import Any

from support.local_server import Handler
from support.service import Behavior, Service, count_aloud, status

CONTEXT = 10_000
"""Characters of a prompt that `talk` reads."""


class OpenAIServer(Service):
    """A fake model `qwen` that follows its behaviors."""

    models = ("qwen", "qwen-coder")

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def get(self, handler: Handler) -> None:
        listed = {"object": "list", "data": [{"id": name} for name in self.models]}
        content = json.dumps(listed).encode()
        handler.send(200 if handler.path == "/v1/models" else 404, content)

    def start(self, handler: Handler, **more: Any) -> None:
        handler.begin_stream()
        self.chunk(handler, {"role": "assistant", "content": ""}, **more)

    def say(self, handler: Handler, text: str) -> None:
        self.chunk(handler, {"content": text})

    def chunk(
        self,
        handler: Handler,
        delta: dict[str, Any],
        choice: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        choices = [{"index": 0, "delta": delta, "finish_reason": None, **(choice or {})}]
        handler.event({"id": "c", "model": "qwen-1", "choices": choices, **more})

    def end(self, handler: Handler, reason: str, usage: dict[str, Any] | None) -> None:
        self.chunk(handler, {}, {"finish_reason": reason})
        if usage:
            handler.event({"id": "c", "model": "qwen-1", "choices": [], "usage": usage})
        handler.event("[DONE]")

    def error(self, kind: str, message: str) -> dict[str, Any]:
        return {"error": {"type": kind, "code": kind, "message": message, "param": None}}


def usage_of(prompt: int, new: int, cached: int = 0) -> dict[str, Any]:
    details = {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": new, "prompt_tokens_details": details}


def answer(
    text: str, *, reason: str = "stop", usage: dict[str, Any] | None = None, seconds: float = 0.0
) -> Behavior:
    """Stream `text` line by line."""

    def behave(handler: Handler, server: OpenAIServer, body: dict[str, Any]) -> None:
        server.closing.wait(seconds)
        server.start(handler)
        for line in text.split("\n"):
            server.say(handler, f"{line}\n" if "\n" in text else line)
        server.end(handler, reason, usage)

    return behave


def ask_for(name: str, arguments: str, *, call: str = "call_1") -> Behavior:
    """Stream a tool call with its arguments in two pieces."""

    def behave(handler: Handler, server: OpenAIServer, body: dict[str, Any]) -> None:
        server.start(handler)
        first_part = {
            "index": 0,
            "id": call,
            "function": {"name": name, "arguments": arguments[:5]},
        }
        server.chunk(handler, {"tool_calls": [first_part]})
        rest = {"index": 0, "function": {"arguments": arguments[5:]}}
        server.chunk(handler, {"tool_calls": [rest]})
        server.end(handler, "tool_calls", None)

    return behave


def unstreamed(content: dict[str, Any]) -> Behavior:
    """Send one JSON body, like a server without streaming."""

    def behave(handler: Handler, server: OpenAIServer, body: dict[str, Any]) -> None:
        handler.send(200, json.dumps(content).encode(), content_type="application/json")

    return behave


def refuse(*fields: str, otherwise: Behavior) -> Behavior:
    """Refuse requests with one of `fields`, like strict servers."""

    def behave(handler: Handler, server: OpenAIServer, body: dict[str, Any]) -> None:
        found = next((field for field in fields if field in body), None)
        if found is None:
            otherwise(handler, server, body)
            return
        message = f"Unsupported parameter: '{found}' is not supported with this model."
        if found == "max_tokens":
            message += " Use 'max_completion_tokens' instead."
        status(400, "unsupported_parameter", message)(handler, server, body)

    return behave


def talk() -> Behavior:
    """Answer like a model, within the request's limits; each piece of text is a token."""

    def behave(handler: Handler, server: OpenAIServer, body: dict[str, Any]) -> None:
        prompt = "".join(message["content"] for message in body["messages"])
        if len(prompt) > CONTEXT:
            message = f"This model's maximum context length is {CONTEXT} tokens."
            status(400, "BadRequestError", message)(handler, server, body)
            return
        with_ids = bool(body.get("return_token_ids"))
        server.start(
            handler, **({"prompt_token_ids": [ord(c) for c in prompt]} if with_ids else {})
        )
        pieces, reason = count_aloud(body["max_tokens"], body.get("stop", []))
        for number, piece in enumerate(pieces):
            logprobs = {"content": [{"token": piece, "logprob": -0.25}]}
            tokens = {"token_ids": [number], "logprobs": logprobs} if with_ids else {}
            server.chunk(handler, {"content": piece}, tokens)
        server.end(handler, reason, usage_of(len(prompt), len(pieces)))

    return behave
