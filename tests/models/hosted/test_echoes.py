"""Servers that send anything: the key stays hidden, and odd responses become failures."""

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import claude_server
from support.claude_server import ClaudeServer
from support.local_server import Handler
from support.openai_server import OpenAIServer, usage_of
from support.service import Behavior, Service, status
from support.vllm_servers import server as vllm_server

from collab.models import Call, Request
from collab.models.hosted.anthropic_engine import AnthropicEngine
from collab.models.hosted.openai_engine import OpenAIEngine
from collab.models.keys import Redactor
from collab.models.vllm.engine import VLLMEngine
from collab.recipe.hosted import AnthropicSpec, OpenAISpec
from collab.recipe.model import VLLMSpec
from collab.records import Action, Message, Sampling

KEY = "sk-secret-0123456789"
ODD: list[Any] = [KEY, f"x{KEY}y" * 40, None, {KEY: [KEY]}, 10**400]

CHOICE = {"index": 0, "message": {"content": "hi", "refusal": None}, "finish_reason": "stop"}
LOGPROBS = {"content": [{"token": "hi", "logprob": -0.5, "id": 3}]}
CHAT = {
    "model": "qwen",
    "choices": [{**CHOICE, "logprobs": LOGPROBS, "token_ids": [3]}],
    "usage": usage_of(3, 1),
    "prompt_token_ids": [1, 2, 3],
}
ERROR = {"error": {"type": "t", "code": "c", "message": "m", "param": "p"}}
CLAUDE = [
    {
        "type": "message_start",
        "message": {"model": "claude", "usage": {"input_tokens": 1, "output_tokens": 1}},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "error", "error": {"type": "api_error", "message": "m"}},
]
VLLM = {
    "choices": [
        {
            "text": "a", "token_ids": [64], "finish_reason": "stop",
            "logprobs": {"token_logprobs": [-1.0]},
        }
    ],
    "usage": {"prompt_tokens_details": {"cached_tokens": 0}},
}  # fmt: skip


def changed(value: Any, odd: Any) -> Iterator[Any]:
    """Yield the value with each of its parts replaced by `odd`, one at a time."""
    yield odd
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for place, part in list(items):
        for other in changed(part, odd):
            result = copy.copy(value)
            result[place] = other
            yield result


def sent(content: Any, code: int = 200) -> Callable[..., None]:
    def behave(handler: Handler, *_: Any) -> None:
        handler.send(code, json.dumps(content).encode(), content_type="application/json")

    return behave


def streamed(events: list[Any]) -> Callable[..., None]:
    def behave(handler: Handler, *_: Any) -> None:
        handler.begin_stream()
        for event in events:
            handler.event(event, str(event.get("type", "")) if isinstance(event, dict) else "")

    return behave


def openai_examples() -> Iterator[Behavior]:
    for odd in ODD:
        yield from map(sent, changed(CHAT, odd))
        yield from (streamed([chunk]) for chunk in changed(CHAT, odd))
        yield from (streamed([error]) for error in changed(ERROR, odd))
        yield from (sent(error, 400) for error in changed(ERROR, odd))
        yield from (sent(error, 404) for error in changed(ERROR, odd))
    yield from echoes()


def claude_examples() -> Iterator[Behavior]:
    for odd in ODD:
        for events in changed(CLAUDE, odd):
            if isinstance(events, list):
                yield streamed(events)
        yield from (sent(error, 400) for error in changed(ERROR, odd))
    yield from echoes()


def echoes() -> Iterator[Behavior]:
    for kind in ("text/html", KEY, "application/json", f"text/event-stream; {KEY}"):
        for code in (200, 404, 503):
            yield _raw(code, kind, f"<html>{KEY}</html>")
            yield _raw(code, kind, KEY)
            yield _raw(code, kind, "[" * 100_000)
    for wait in (KEY, "nan", "inf", "-1", "9" * 5000, "Mon, 99 Foo 99999"):
        yield status(429, "rate_limit_error", "slow", retry_after=wait)
    yield _line(f"HTTP/1.1 {KEY}\r\n{KEY}\r\n\r\n".encode())
    yield _line(f"HTTP/1.1 200 OK\r\n{KEY} {KEY}\r\n\r\n".encode())


def _raw(code: int, kind: str, body: str) -> Behavior:
    def behave(handler: Handler, *_: Any) -> None:
        handler.send(code, body.encode(), content_type=kind)

    return behave


def _line(raw: bytes) -> Behavior:
    def behave(handler: Handler, *_: Any) -> None:
        handler.wfile.write(raw)
        handler.wfile.flush()
        handler.connection.shutdown(2)

    return behave


def request(n: int, **more: Any) -> Request:
    call = Call(task="t/0", sample=n, turn=0, round=0, agent="main")
    return Request(call=call, sampling=Sampling(max_new_tokens=8), seed=n, **more)


def answers(engine: Any, requests: list[Request]) -> tuple[list[Action], list[str]]:
    """Send the requests one after another; return the actions and the streamed texts."""
    texts: list[str] = []

    async def go() -> list[Action]:
        try:
            actions = []
            for item in requests:
                actions += await engine.generate([item], lambda *news: texts.append(news[2]))
            return actions
        finally:
            await engine.aclose()

    return asyncio.run(go()), texts


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_hosted_engines_never_expose_the_key(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    examples = list(openai_examples() if dialect == "openai" else claude_examples())
    kind: type[Service] = OpenAIServer if dialect == "openai" else ClaudeServer
    hello = (Message(role="user", content="hello"),)
    with kind(*examples) as server:
        if dialect == "openai":
            url = f"{server.url}/v1"
            spec = OpenAISpec(name="qwen", base_url=url, retries=0, tokens=True)
            engine: Any = OpenAIEngine(spec)
        else:
            engine = AnthropicEngine(AnthropicSpec(base_url=server.url, retries=0))
        actions, texts = answers(engine, [request(n, messages=hello) for n in range(len(examples))])
    assert len(server.bodies) >= len(examples) > 100
    for action in actions:
        assert KEY not in action.model_dump_json()
        assert KEY[:15] not in action.model_dump_json(), "truncated before it was redacted"
    assert KEY not in "".join(texts)


def test_vllm_engine_never_exposes_the_key(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    monkeypatch.setattr("collab.models.vllm.servers.POLL_SECONDS", 0.01)
    monkeypatch.setattr("collab.models.vllm.servers.MAX_ATTEMPTS", 1)
    examples = [
        behave
        for odd in ODD
        for make in (sent, lambda content: streamed([content]))
        for behave in map(make, changed(VLLM, odd))
    ]
    examples += [sent(error, code) for error in changed(ERROR, KEY) for code in (400, 404, 503)]
    examples += list(echoes())[:-8]
    with vllm_server.VLLMServer() as server:
        engine = VLLMEngine(VLLMSpec(name=str(tiny), servers=(server.url,), ready_seconds=5))
        server.trouble = list(examples)
        requests = [request(n, prompt_ids=(1, 2, 3)) for n in range(len(examples))]
        actions, texts = answers(engine, requests)
    for action in actions:
        assert KEY[:15] not in action.model_dump_json()
    assert KEY not in "".join(texts)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_key_split_across_chunks_is_redacted(size: int) -> None:
    text = f"a sk- {KEY} sk-s{KEY}{KEY[:5]}"
    hidden = Redactor(KEY)
    redacted = (
        "".join(hidden(text[at : at + size]) for at in range(0, len(text), size)) + hidden.flush()
    )
    assert redacted == text.replace(KEY, "[key]")


def test_placeholder_key_is_not_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    hello = (Message(role="user", content="hello"),)
    completion = {**CHAT, "choices": [{**CHOICE, "message": {"content": "there is none"}}]}
    with OpenAIServer(sent(completion)) as server:
        engine = OpenAIEngine(OpenAISpec(name="qwen", base_url=f"{server.url}/v1"))
        [action], _ = answers(engine, [request(0, messages=hello)])
    assert action.text == "there is none"


def test_streamed_chunks_add_up_to_the_redacted_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    hello = (Message(role="user", content="hello"),)
    with ClaudeServer(claude_server.answer(f"one\n{KEY}\nand s")) as server:
        engine = AnthropicEngine(AnthropicSpec(base_url=server.url))
        [action], texts = answers(engine, [request(0, messages=hello)])
    assert "".join(texts) == action.text == "one\n[key]\nand s"
