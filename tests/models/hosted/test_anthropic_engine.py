"""Claude as an engine, against a local server."""

import asyncio
from typing import Any

import pytest
from support.claude_server import Behavior, ClaudeServer, answer, malformed, status, stream_error
from support.hosted import KEY, SYSTEM, ask, request_of

from collab.errors import ModelUnavailable, RecipeError
from collab.models import Request
from collab.models.hosted.anthropic_engine import AnthropicEngine
from collab.recipe.hosted import AnthropicSpec
from collab.records import Action, Message, Sampling


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setattr("collab.models.hosted.engine.FIRST_WAIT", 0.01)


def ask_claude(server: ClaudeServer, *requests: Request, progress: Any = None) -> list[Action]:
    engine = AnthropicEngine(AnthropicSpec(name="claude-test", base_url=server.url))
    return ask(engine, *requests, progress=progress)


def test_an_answer_is_streamed_counted_and_priced() -> None:
    news: list[str] = []
    with ClaudeServer(answer("one\ntwo\n", cache_read=100, cache_written=40)) as server:
        [action] = ask_claude(server, progress=lambda _request, _count, text: news.append(text))
    assert action.text == "one\ntwo\n"
    assert news == ["one\n", "two\n"]
    assert action.model == "anthropic:claude-test-1"
    assert action.finish_reason == "stop"
    assert action.usage.prompt_tokens == 152
    assert action.usage.cached_tokens == 100
    assert action.usage.new_tokens == 5
    assert action.usage.cost == pytest.approx((12 + 10 + 50) * 3e-6 + 5 * 15e-6)
    assert server.keys == [KEY]


def test_request_contains_only_non_default_settings() -> None:
    with ClaudeServer(answer("")) as server:
        [action] = ask_claude(server)
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
        [action] = ask_claude(server, request)
    assert action.failure is None
    assert action.finish_reason == "length"
    body = server.bodies[0]
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    assert "cache_control" in body["messages"][-1]["content"][0]
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 0.9, 40)
    assert body["stop_sequences"] == ["END"]


@pytest.mark.parametrize(
    "trouble", [stream_error(), malformed('{"type": "message_start", "message": {"model": 7}}')]
)
def test_error_within_a_stream_is_retried(trouble: Behavior) -> None:
    with ClaudeServer(trouble, answer("fine")) as server:
        [action] = ask_claude(server)
    assert action.text == "fine"
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (
            status(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            "ContextOverflow",
            "shorten the prompt",
        ),
        (answer("", stop_reason="refusal"), "ModelRefused", "declined"),
        (answer("", stop_reason="sunset"), "ModelError", "sunset"),
    ],
)
def test_errors_of_claude_are_typed_failures(trouble: Behavior, kind: str, words: str) -> None:
    with ClaudeServer(trouble) as server:
        [action] = ask_claude(server)
    assert action.failure is not None
    assert action.failure.type == kind
    assert words in action.failure.message
    assert len(server.bodies) == 1


def test_messages_without_text_are_left_out() -> None:
    parts = [("user", "a"), ("assistant", "  \n"), ("user", "c")]
    history = [SYSTEM, *(Message(role=r, content=c) for r, c in parts)]
    with ClaudeServer(answer("x")) as server:
        ask_claude(server, request_of(*history))
    texts = [message["content"][0]["text"] for message in server.bodies[0]["messages"]]
    assert texts == ["a", "c"]


def test_settings_are_checked_before_any_work() -> None:
    engine = AnthropicEngine(AnthropicSpec())
    engine.check(Sampling(temperature=1.0), None)
    with pytest.raises(RecipeError, match=r"0 to 1, not 1\.2"):
        engine.check(Sampling(temperature=1.2), None)
    with pytest.raises(RecipeError, match=r"does not support the stop string '\\n\\n'"):
        engine.check(Sampling(stop=("END", "\n\n")), None)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://me:secret@gateway", "ANTHROPIC_BASE_URL at gateway has more than host"),
        ("http://me:sec/ret@gateway", "ANTHROPIC_BASE_URL is not an address"),
    ],
)
def test_base_url_with_credentials_is_refused_without_showing_them(
    url: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
    with pytest.raises(RecipeError, match=f"^{words}") as error:
        AnthropicEngine(AnthropicSpec())
    assert "sec" not in str(error.value)


def test_base_url_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK warns about models near their end, and warnings are errors in tests."""
    with ClaudeServer(answer("fine")) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{server.url}/")
        engine = AnthropicEngine(AnthropicSpec())
        [action] = asyncio.run(engine.generate([request_of()]))
    assert action.text == "fine"


def test_missing_key_is_refused_on_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ModelUnavailable, match="set ANTHROPIC_API_KEY"):
        AnthropicEngine(AnthropicSpec())


@pytest.mark.parametrize("behavior", [answer("x" * 4000), status(500, message="x" * 4000)])
def test_an_answer_has_a_limit(monkeypatch: pytest.MonkeyPatch, behavior: Behavior) -> None:
    monkeypatch.setattr("collab.models.http_client.MAX_ANSWER_BYTES", 3000)
    with ClaudeServer(behavior) as server:
        [action] = ask_claude(server)
    assert action.failure is not None
    assert "an answer has more than 3,000 bytes" in action.failure.message
    assert len(server.bodies) == 1, "the request is not retried"
