"""Claude as an engine, against a real local server."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from support.claude_server import (
    Behaviour,
    ClaudeServer,
    answer,
    cut,
    malformed,
    slow,
    status,
    stream_error,
)

from collab.errors import ModelUnavailable, RecipeError
from collab.models import Call, Request
from collab.models.anthropic_engine import AnthropicEngine
from collab.recipe.model import AnthropicModel
from collab.records import Action, Message, Sampling

KEY = "sk-secret-0123456789"
SYSTEM = Message(role="system", content="You write code.")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setattr("collab.models.retry.FIRST_WAIT", 0.01)


def request_of(*messages: Message, adapter: str | None = None, **sampling: Any) -> Request:
    call = Call(task="t/0", sample=0, turn=0, round=0, agent="main")
    told = messages or (SYSTEM, Message(role="user", content="Add two numbers."))
    return Request(call=call, messages=told, sampling=Sampling(**sampling), adapter=adapter)


def ask(
    server: ClaudeServer, *requests: Request, progress: Any = None, **options: Any
) -> list[Action]:
    """All requests in one call; a failure must not hold the key."""

    async def go() -> list[Action]:
        spec = AnthropicModel(name="claude-test", base_url=server.url, **options)
        engine = AnthropicEngine(spec)
        try:
            return await engine.generate(requests or [request_of()], progress)
        finally:
            await engine.aclose()

    actions = asyncio.run(go())
    assert all(KEY not in action.model_dump_json() for action in actions)
    return actions


def failure_of_one(*behaviours: Behaviour, **options: Any) -> tuple[str, str, int]:
    """The failure's type and message, and the number of requests that reached the server."""
    with ClaudeServer(*behaviours) as server:
        started = time.monotonic()
        [action] = ask(server, **options)
        assert time.monotonic() - started < 5
    assert action.failure is not None
    assert action.finish_reason == "failed"
    return action.failure.type, action.failure.message, len(server.bodies)


def test_an_answer_is_streamed_counted_and_priced() -> None:
    news: list[str] = []
    with ClaudeServer(answer("one\ntwo\n", cache_read=100, cache_written=40)) as server:
        [action] = ask(server, progress=lambda _request, _count, text: news.append(text))
    assert action.text == "one\ntwo\n"
    assert news == ["one\n", "two\n"]
    assert action.model == "anthropic:claude-test-1"
    assert action.finish_reason == "stop"
    assert action.usage.prompt_tokens == 152
    assert action.usage.cached_tokens == 100
    assert action.usage.new_tokens == 5
    assert action.usage.cost == pytest.approx((12 + 10 + 50) * 3e-6 + 5 * 15e-6)
    assert server.keys == [KEY]


def test_the_request_holds_only_what_differs_from_the_defaults() -> None:
    with ClaudeServer(answer("")) as server:
        [action] = ask(server)
    assert action.text == ""
    assert action.failure is None
    body = server.bodies[0]
    cached = {"type": "ephemeral"}
    assert body["system"] == [{"type": "text", "text": SYSTEM.content, "cache_control": cached}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Add two numbers."}]}
    ]
    assert body["max_tokens"] == 256
    assert not {"temperature", "top_p", "top_k", "stop_sequences"} & set(body)


def test_settings_and_history_are_sent() -> None:
    history = [
        SYSTEM,
        *(Message(role=r, content=c) for r, c in [("user", "a"), ("assistant", "b")]),
    ]
    request = request_of(
        *history,
        Message(role="user", content="c"),
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        stop=("END",),
    )
    with ClaudeServer(answer("x", stop_reason="max_tokens")) as server:
        [action] = ask(server, request)
    assert action.failure is None
    assert action.finish_reason == "length"
    body = server.bodies[0]
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    assert "cache_control" in body["messages"][-1]["content"][0]
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 0.9, 40)
    assert body["stop_sequences"] == ["END"]


@pytest.mark.parametrize(
    "trouble",
    [
        status(429, "rate_limit_error", retry_after="0.05"),
        status(529, "overloaded_error"),
        status(500),
        cut(),
        cut("half of an"),
        stream_error(),
        malformed(),
        malformed('{"type": "message_start", "message": {"model": 7}}'),
    ],
)
def test_passing_trouble_is_tried_again(trouble: Behaviour) -> None:
    with ClaudeServer(trouble, answer("fine")) as server:
        [action] = ask(server)
    assert action.text == "fine"
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (status(429, "rate_limit_error", "too fast"), "ModelRefused", "429 rate_limit_error"),
        (status(529, "overloaded_error", "busy"), "ModelUnavailable", "529 overloaded_error"),
        (status(503), "ModelUnavailable", "503"),
        (cut(), "ModelUnavailable", "onnection"),
        (cut("half"), "ModelUnavailable", "claude-test"),
        (malformed(), "ModelUnavailable", "claude-test"),
        (stream_error(), "ModelUnavailable", "Overloaded"),
    ],
)
def test_trouble_that_stays_is_bounded(trouble: Behaviour, kind: str, words: str) -> None:
    found, message, attempts = failure_of_one(trouble, retries=2)
    assert (found, attempts) == (kind, 3)
    assert words in message
    assert "gave up after 3 attempts" in message


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (status(400, "invalid_request_error", "no such field"), "ModelRefused", "no such field"),
        (
            status(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            "ContextOverflow",
            "shorten the prompt",
        ),
        (
            status(401, "authentication_error", f"invalid x-api-key {KEY}"),
            "ModelUnavailable",
            "check ANTHROPIC_API_KEY",
        ),
        (status(403, "permission_error", "not yours"), "ModelRefused", "not yours"),
        (status(404, "not_found_error", "model: claude-test"), "ModelUnavailable", "404"),
        (answer("", stop_reason="refusal"), "ModelRefused", "declined"),
        (answer("", stop_reason="sunset"), "ModelError", "sunset"),
    ],
)
def test_what_will_not_pass_is_not_tried_again(trouble: Behaviour, kind: str, words: str) -> None:
    found, message, attempts = failure_of_one(trouble)
    assert (found, attempts) == (kind, 1)
    assert words in message


@pytest.mark.parametrize("trouble", [slow(), slow(after="half of an")])
def test_a_slow_answer_ends_at_the_limit(trouble: Behaviour) -> None:
    found, message, attempts = failure_of_one(trouble, seconds=0.4)
    assert (found, attempts) == ("ModelTimeout", 1)
    assert "0.4 s" in message


def test_a_long_retry_after_is_not_waited_for() -> None:
    found, message, attempts = failure_of_one(
        status(429, "rate_limit_error", retry_after="3600"), seconds=2.0
    )
    assert (found, attempts) == ("ModelRefused", 1)
    assert "3600 s" in message


def test_nobody_listens() -> None:
    server = ClaudeServer(answer("never"))
    server._server.server_close()
    [action] = ask(server, retries=1)
    assert action.failure is not None
    assert action.failure.type == "ModelUnavailable"


def test_the_budget_is_kept_before_a_request_is_sent() -> None:
    requests = [request_of(max_new_tokens=1000)] * 3
    with ClaudeServer(answer("x", new_tokens=1000)) as server:
        actions = ask(server, *requests, cost_limit=0.035, concurrency=1)
    assert len(server.bodies) == 2
    assert [a.failure is None for a in actions] == [True, True, False]
    failure = actions[2].failure
    assert failure is not None
    assert failure.type == "BudgetExceeded"
    assert "$0.035" in failure.message


def test_one_failure_leaves_the_others_alone() -> None:
    with ClaudeServer(answer("fine")) as server:
        good, hot, adapted = ask(
            server, request_of(), request_of(temperature=1.5), request_of(adapter="aux")
        )
    assert good.text == "fine"
    assert hot.failure is not None
    assert hot.failure.type == "RecipeError"
    assert "0 to 1, not 1.5" in hot.failure.message
    assert adapted.failure is not None
    assert "aux" in adapted.failure.message


def test_requests_in_flight_are_limited() -> None:
    with ClaudeServer(answer("x", seconds=0.05)) as server:
        ask(server, *[request_of()] * 9, concurrency=3)
    assert server.most_at_once == 3


def test_cancellation_is_quick() -> None:
    async def go(url: str) -> float:
        engine = AnthropicEngine(AnthropicModel(name="claude-test", base_url=url))
        begun = asyncio.Event()
        task = asyncio.create_task(engine.generate([request_of()], lambda *_: begun.set()))
        await begun.wait()
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await engine.aclose()
        return time.monotonic() - started

    with ClaudeServer(slow(after="half")) as server:
        assert asyncio.run(go(server.url)) < 2


def test_settings_are_checked_before_any_work() -> None:
    engine = AnthropicEngine(AnthropicModel())
    engine.check(Sampling(temperature=1.0), None)
    with pytest.raises(RecipeError, match=r"0 to 1, not 1\.2"):
        engine.check(Sampling(temperature=1.2), None)


def test_a_missing_key_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ModelUnavailable, match="set ANTHROPIC_API_KEY"):
        AnthropicEngine(AnthropicModel())
