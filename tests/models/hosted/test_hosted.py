"""Common behavior of hosted models, against local servers of each protocol."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import pytest
from support import claude_server, openai_server
from support.claude_server import ClaudeServer
from support.hosted import KEY, ask, request_of
from support.local_server import Handler
from support.openai_server import OpenAIServer, usage_of
from support.service import Behavior, Service, cut, malformed, slow, status

from collab.errors import ModelUnavailable
from collab.models.hosted.anthropic_engine import AnthropicEngine
from collab.models.hosted.engine import HostedEngine
from collab.models.hosted.openai_engine import OpenAIEngine
from collab.recipe.hosted import AnthropicSpec, AnyHostedSpec, HostedSpec, OpenAISpec
from collab.records import Message


@dataclass(frozen=True)
class Protocol:
    """One protocol: its server, its engine, and an answer with some new tokens."""

    serve: Callable[..., Service]
    engine: Callable[..., HostedEngine]
    answer: Callable[..., Behavior]
    variable: str


def claude(server: Service, **options: Any) -> HostedEngine:
    return AnthropicEngine(AnthropicSpec(name="claude-test", base_url=server.url, **options))


def openai(server: Service, **options: Any) -> HostedEngine:
    if "cost_limit" in options:
        options |= {"input_price": 3.0, "output_price": 15.0}
    return OpenAIEngine(OpenAISpec(name="qwen", base_url=f"{server.url}/v1", **options))


def claude_answer(text: str, new_tokens: int = 5, **more: Any) -> Behavior:
    return claude_server.answer(text, new_tokens=new_tokens, **more)


def openai_answer(text: str, new_tokens: int = 5, **more: Any) -> Behavior:
    return openai_server.answer(text, usage=usage_of(12, new_tokens), **more)


PROTOCOLS = {
    "anthropic": Protocol(ClaudeServer, claude, claude_answer, "ANTHROPIC_API_KEY"),
    "openai": Protocol(OpenAIServer, openai, openai_answer, "OPENAI_API_KEY"),
}


def test_every_service_is_tested_here_and_asked_about() -> None:
    services = get_args(AnyHostedSpec)
    assert {*services} == {*HostedSpec.__subclasses__()}
    assert {spec.model_fields["engine"].default for spec in services} == {*PROTOCOLS}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Protocol:
    import anthropic  # noqa: F401  takes seconds, which `ask` must not count

    protocol = PROTOCOLS[request.param]
    monkeypatch.setenv(protocol.variable, KEY)
    monkeypatch.setattr("collab.models.hosted.engine.FIRST_WAIT", 0.01)
    return protocol


def failure_of_one(protocol: Protocol, trouble: Behavior, **options: Any) -> tuple[str, str, int]:
    """Return the failure's type and message, and the number of requests to the server."""
    with protocol.serve(trouble) as server:
        engine = protocol.engine(server, **options)
        [action] = ask(engine)
    assert action.finish_reason == "failed"
    assert action.failure is not None
    return action.failure.type, action.failure.message, len(server.bodies)


def broken_chunk(handler: Handler, server: Service, body: dict[str, Any]) -> None:
    """Close the connection within a chunk, an error at the HTTP level."""
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"ff\r\nevent")
    handler.connection.shutdown(2)


def page(handler: Handler, server: Service, body: dict[str, Any]) -> None:
    """Send a web page instead of a model's answer."""
    handler.send(200, b"<html>Welcome</html>", content_type="text/html")


@pytest.mark.parametrize(
    "trouble",
    [
        status(429, "rate_limit_error", retry_after="Wed, 21 Oct 99999 07:28:00 GMT"),
        broken_chunk,
        page,
        status(529, "overloaded_error"),
        cut("half of an"),
        malformed(),
    ],
)
def test_temporary_errors_are_retried(protocol: Protocol, trouble: Behavior) -> None:
    with protocol.serve(trouble, protocol.answer("fine")) as server:
        [action] = ask(protocol.engine(server))
    assert action.text == "fine"
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (status(429, "rate_limit_error", "too fast"), "ModelUnavailable", "429 rate_limit_error"),
        (status(503), "ModelUnavailable", "503"),
        (broken_chunk, "ModelUnavailable", "incomplete chunked read"),
    ],
)
def test_retries_are_limited(protocol: Protocol, trouble: Behavior, kind: str, words: str) -> None:
    found, message, attempts = failure_of_one(protocol, trouble, retries=2)
    assert (found, attempts) == (kind, 3)
    assert words in message
    assert message.startswith("gave up after 3 attempts: ")


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (status(400, "invalid_request_error", "no such field"), "ModelRefused", "no such field"),
        (status(413, "request_too_large", "32 MB"), "ContextOverflow", "shorten the prompt"),
        (status(401, "authentication_error", f"bad key {KEY}"), "ModelDenied", "[key]; check"),
        (status(403, "permission_error", "not yours"), "ModelDenied", "check"),
        (status(404, "not_found_error", "no such model"), "ModelDenied", "no such model"),
        (status(402, "billing_error", "pay"), "ModelDenied", "the account"),
        (status(400, "x", "Your credit balance is too low"), "ModelDenied", "the account"),
    ],
)
def test_permanent_errors_are_not_retried(
    protocol: Protocol, trouble: Behavior, kind: str, words: str
) -> None:
    found, message, attempts = failure_of_one(protocol, trouble)
    assert (found, attempts) == (kind, 1)
    assert words in message
    assert "at 127.0.0.1:" in message
    if "check" in words:
        assert f"check {protocol.variable}" in message


@pytest.mark.parametrize("trouble", [slow(), slow(after="half of an")])
def test_slow_answer_times_out(protocol: Protocol, trouble: Behavior) -> None:
    found, message, attempts = failure_of_one(protocol, trouble, seconds=0.4)
    assert (found, attempts) == ("ModelTimeout", 1)
    assert "at 127.0.0.1:" in message
    assert "0.4 s" in message


def test_long_retry_after_fails_at_once(protocol: Protocol) -> None:
    found, message, attempts = failure_of_one(
        protocol, status(429, "rate_limit_error", retry_after="3600"), seconds=2.0
    )
    assert (found, attempts) == ("ModelUnavailable", 1)
    assert "3600 s" in message


def test_blanks_around_a_key_are_cut(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(protocol.variable, f"{KEY}\n")
    with protocol.serve(protocol.answer("fine")) as server:
        [action] = ask(protocol.engine(server))
    assert action.text == "fine"
    assert server.keys == [KEY]


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "sk-\u2026"])
def test_invalid_key_is_refused_without_showing_it(
    protocol: Protocol, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(protocol.variable, key)
    with (
        protocol.serve(protocol.answer("never")) as server,
        pytest.raises(ModelUnavailable, match=f"^{protocol.variable} does not hold a key") as error,
    ):
        protocol.engine(server)
    assert "sk-" not in str(error.value)


def test_refused_connection_is_a_failure(protocol: Protocol) -> None:
    server = protocol.serve(protocol.answer("never"))
    server.shut()
    [action] = ask(protocol.engine(server, retries=1))
    assert action.failure is not None
    assert action.failure.type == "ModelUnavailable"
    assert server.url.removeprefix("http://") in action.failure.message


def test_cost_limit_is_enforced_before_a_request_is_sent(protocol: Protocol) -> None:
    requests = [request_of(max_new_tokens=1000)] * 3
    with protocol.serve(protocol.answer("x", new_tokens=1000)) as server:
        actions = ask(protocol.engine(server, cost_limit=0.035, concurrency=1), *requests)
    assert len(server.bodies) == 2
    assert [a.failure is None for a in actions] == [True, True, False]
    assert actions[0].usage.cost == pytest.approx(12 * 3e-6 + 1000 * 15e-6)
    failure = actions[2].failure
    assert failure is not None
    assert failure.type == "BudgetExceeded"
    assert "$0.035" in failure.message


def test_cost_estimate_counts_one_token_per_character(protocol: Protocol) -> None:
    """For Claude, the estimate includes a cache write, which costs a quarter more."""
    chinese = (Message(role="user", content="\u6c49" * 8000),)
    request = request_of(max_new_tokens=10).model_copy(update={"messages": chinese})
    dearer = 1.25 if protocol.variable == "ANTHROPIC_API_KEY" else 1.0
    most = (8000 * 3.0 * dearer + 10 * 15.0) / 1e6
    kinds = []
    for limit in (most - 1e-4, most + 1e-4):
        with protocol.serve(protocol.answer("x")) as server:
            [action] = ask(protocol.engine(server, cost_limit=limit), request)
        kinds.append(action.failure and action.failure.type)
    assert kinds == ["BudgetExceeded", None]


def test_one_failed_request_does_not_affect_the_others(protocol: Protocol) -> None:
    adapted = request_of().model_copy(update={"adapter": "aux"})
    tokens = request_of().model_copy(update={"messages": (), "prompt_ids": (1, 2)})
    with protocol.serve(protocol.answer("fine")) as server:
        requests = (request_of(), request_of(temperature=2.5), adapted, tokens)
        good, *bad = ask(protocol.engine(server), *requests)
    assert good.text == "fine"
    failures = [action.failure for action in bad]
    words = ("not 2.5", "cannot use adapter aux", "needs messages")
    for failure, expected in zip(failures, words, strict=True):
        assert failure is not None
        assert expected in failure.message


def test_requests_in_flight_are_limited(protocol: Protocol) -> None:
    with protocol.serve(protocol.answer("x", seconds=0.05)) as server:
        ask(protocol.engine(server, concurrency=3), *[request_of()] * 9)
    assert server.most_at_once == 3


def test_cancellation_is_quick_and_the_engine_stays_usable(protocol: Protocol) -> None:
    async def go(engine: HostedEngine) -> tuple[float, str]:
        begun = asyncio.Event()
        task = asyncio.create_task(engine.generate([request_of()], lambda *_: begun.set()))
        await begun.wait()
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seconds = time.monotonic() - started
        [action] = await engine.generate([request_of()])
        await engine.aclose()
        await engine.aclose()
        return seconds, action.text

    with protocol.serve(slow(after="half"), protocol.answer("whole")) as server:
        seconds, text = asyncio.run(go(protocol.engine(server)))
    assert seconds < 2
    assert text == "whole"
