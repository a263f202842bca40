"""Servers with chat completions as engines, against a local server."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from support.hosted import KEY, ask, request_of
from support.openai_server import OpenAIServer, answer, refuse, talk, unstreamed, usage_of
from support.service import Behavior, malformed, status

from collab.errors import ModelUnavailable, RecipeError
from collab.models import Request
from collab.models.hosted.openai_engine import OpenAIEngine
from collab.models.open import open_model
from collab.recipe.hosted import OpenAISpec
from collab.recipe.model import ModelSpec
from collab.records import Action

SPEC: TypeAdapter[ModelSpec] = TypeAdapter(ModelSpec)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr("collab.models.hosted.engine.FIRST_WAIT", 0.01)


def ask_qwen(
    server: OpenAIServer, *requests: Request, progress: Any = None, **options: Any
) -> list[Action]:
    engine = OpenAIEngine(OpenAISpec(name="qwen", base_url=server.base_url, **options))
    return ask(engine, *requests, progress=progress)


def failure_of_one(*behaviors: Behavior, **options: Any) -> tuple[str, str, int]:
    """Return the failure's type and message, and the number of requests to the server."""
    with OpenAIServer(*behaviors) as server:
        [action] = ask_qwen(server, **options)
    assert action.failure is not None
    return action.failure.type, action.failure.message, len(server.bodies)


def test_an_answer_is_streamed_and_counted() -> None:
    news: list[str] = []
    usage = usage_of(prompt=112, new=5, cached=100)
    with OpenAIServer(answer("one\ntwo", usage=usage)) as server:
        [action] = ask_qwen(server, progress=lambda _request, _count, text: news.append(text))
    assert action.text == "one\ntwo\n"
    assert news == ["one\n", "two\n"]
    assert action.model == "openai:qwen-1"
    assert action.finish_reason == "stop"
    assert (action.usage.prompt_tokens, action.usage.cached_tokens) == (112, 100)
    assert action.usage.new_tokens == 5
    assert action.usage.cost is None
    assert (action.token_ids, action.logprobs) == ((), ())
    assert server.keys == [None]


def test_request_body_contains_the_settings() -> None:
    plain, settled = request_of(), request_of(temperature=0.5, top_p=0.9, top_k=40, stop=("END",))
    with OpenAIServer(answer("x", reason="length")) as server:
        actions = ask_qwen(server, plain, settled, concurrency=1)
    assert {action.finish_reason for action in actions} == {"length"}
    assert server.bodies[0] == {
        "model": "qwen",
        "messages": [
            {"role": "system", "content": "You write code."},
            {"role": "user", "content": "Add two numbers."},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 1.0,
        "top_p": 1.0,
        "seed": 7,
        "max_tokens": 256,
    }
    sent = {name: server.bodies[1][name] for name in ("temperature", "top_p", "top_k", "stop")}
    assert sent == {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop": ["END"]}


def test_tokens_are_recorded_when_requested() -> None:
    counts: list[int] = []
    with OpenAIServer(talk()) as server:
        [action] = ask_qwen(
            server,
            request_of(max_new_tokens=4),
            progress=lambda _request, count, _text: counts.append(count),
            tokens=True,
        )
    assert action.token_ids == (0, 1, 2, 3)
    assert action.logprobs == (-0.25,) * 4
    assert len(action.prompt_ids) == action.usage.prompt_tokens
    assert counts == [1, 2, 3, 4]
    assert server.bodies[0]["top_k"] == -1
    assert server.bodies[0]["return_token_ids"] is True


def test_llama_cpp_token_ids_are_read_from_its_logprobs() -> None:
    entries = [{"id": 11, "logprob": -0.5}, {"id": 12, "logprob": -0.1}]
    choice = {
        "message": {"content": "hi"},
        "finish_reason": "stop",
        "logprobs": {"content": entries},
    }
    with OpenAIServer(unstreamed({"model": "m", "choices": [choice]})) as server:
        [action] = ask_qwen(server, tokens=True)
    assert (action.token_ids, action.logprobs) == ((11, 12), (-0.5, -0.1))


def test_missing_tokens_are_an_error() -> None:
    kind, message, attempts = failure_of_one(answer("x"), tokens=True)
    assert (kind, attempts) == ("ModelError", 1)
    assert "0 token ids and 0 log-probabilities; set tokens: false" in message


def test_missing_usage_is_not_estimated() -> None:
    prices = {"input_price": 1.0, "output_price": 1.0}
    with OpenAIServer(answer("fine")) as server:
        [action] = ask_qwen(server, **prices)
    assert action.text == "fine"
    assert (action.usage.prompt_tokens, action.usage.new_tokens) == (0, 0)
    assert action.usage.cost is None


def test_server_without_streaming_is_supported() -> None:
    choice = {"message": {"content": "all at once"}, "finish_reason": "stop"}
    with OpenAIServer(unstreamed({"choices": [choice], "usage": usage_of(3, 4)})) as server:
        [action] = ask_qwen(server)
    assert (action.text, action.usage.new_tokens) == ("all at once", 4)


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
REFERENCE = {"type": "reference", "reference_ids": [1]}


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"content": [THOUGHT, {"type": "text", "text": "a"}, REFERENCE, "b"]}},
        {"delta": {"content": [{"type": "output_text", "text": "ab"}]}},
        {"text": "ab"},
        {"message": {"content": "ab"}, "text": None},
    ],
)
def test_all_shapes_of_text_are_read(choice: dict[str, Any]) -> None:
    with OpenAIServer(unstreamed({"choices": [choice | {"finish_reason": "stop"}]})) as server:
        [action] = ask_qwen(server)
    assert action.text == "ab"


def test_streamed_parts_become_text() -> None:
    def behave(handler: Any, server: OpenAIServer, body: dict[str, Any]) -> None:
        server.start(handler)
        server.chunk(handler, {"content": [THOUGHT]})
        server.chunk(handler, {"content": [{"type": "text", "text": "4"}]})
        server.chunk(handler, {"content": "2"})
        server.end(handler, "stop", None)

    with OpenAIServer(behave) as server:
        [action] = ask_qwen(server)
    assert action.text == "42"


@pytest.mark.parametrize(
    "message", [{}, {"content": None}, {"role": "assistant"}, {"reasoning_content": "Hm."}]
)
def test_an_empty_message_is_an_empty_answer(message: dict[str, Any]) -> None:
    choice = {"message": message, "finish_reason": "length"}
    with OpenAIServer(unstreamed({"choices": [choice]})) as server:
        [action] = ask_qwen(server)
    assert (action.text, action.finish_reason) == ("", "length")


def test_arguments_of_a_tool_call_may_be_an_object() -> None:
    call = {"id": "c", "function": {"name": "add", "arguments": {"a": 1}}}
    choice = {"message": {"content": "", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    with OpenAIServer(unstreamed({"choices": [choice]})) as server:
        [action] = ask_qwen(server)
    assert action.tool_calls[0].arguments == {"a": 1}


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("eos", "stop"), ("eos_token", "stop"), ("STOP", "stop"), ("model_length", "length")],
)
def test_other_spellings_of_the_finish_reason_are_known(reason: str, expected: str) -> None:
    with OpenAIServer(answer("x", reason=reason)) as server:
        [action] = ask_qwen(server)
    assert action.finish_reason == expected


@pytest.mark.parametrize(
    ("usage", "counts", "cost"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4), 11.0),
        ({"prompt_tokens": 3, "total_tokens": 7}, (3, 4), 11.0),
        ({"completion_tokens": 4, "total_tokens": 7, "prompt_tokens": None}, (3, 4), 11.0),
        ({"prompt_tokens": 3}, (3, 0), None),
        ({"total_tokens": 7}, (0, 0), None),
    ],
)
def test_a_missing_count_is_unknown_unless_the_total_tells_it(
    usage: dict[str, Any], counts: tuple[int, int], cost: float | None
) -> None:
    with OpenAIServer(answer("fine", usage=usage)) as server:
        [action] = ask_qwen(server, input_price=1e6, output_price=2e6)
    assert (action.usage.prompt_tokens, action.usage.new_tokens) == counts
    assert action.usage.cost == cost


def test_long_names_and_reasons_are_shortened() -> None:
    long = "x" * 100_000
    choice = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    with OpenAIServer(unstreamed({"model": long, "choices": [choice]})) as server:
        [action] = ask_qwen(server)
    assert action.model.startswith("openai:xxx")
    assert len(action.model) < 400
    refusal = {"index": 0, "message": {"refusal": long}, "finish_reason": "stop"}
    for trouble in (answer("hi", reason=long), unstreamed({"model": long, "choices": [refusal]})):
        assert 200 < len(failure_of_one(trouble)[1]) < 500


def test_unsupported_fields_are_dropped_for_a_strict_server() -> None:
    strict = refuse("max_tokens", "seed", "stream_options", "top_p", otherwise=answer("fine"))
    with OpenAIServer(strict) as server:
        first, second = ask_qwen(server, request_of(), request_of(), concurrency=1)
    assert (first.text, second.text) == ("fine", "fine")
    assert len(server.bodies) == 6, "refused fields are left out of later requests"
    assert server.bodies[-1]["max_completion_tokens"] == 256
    assert server.bodies[-1]["temperature"] == 1.0


def test_relevant_setting_is_never_dropped() -> None:
    with OpenAIServer(refuse("top_p", otherwise=answer("fine"))) as server:
        [action] = ask_qwen(server, request_of(top_p=0.5))
    assert action.failure is not None
    assert action.failure.type == "ModelRefused"
    assert "'top_p' is not supported" in action.failure.message
    assert len(server.bodies) == 1


ODD = '{"choices": [{"delta": 7}]}'
IMAGE = {"choices": [{"message": {"content": [{"type": "image_url"}]}, "finish_reason": "stop"}]}
NUMBER = {"choices": [{"message": {"content": {"text": "a"}}, "finish_reason": "stop"}]}
DECLINED = {"choices": [{"message": {"refusal": "I cannot."}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (malformed(), "ModelError", "did not send a chat completion"),
        (malformed(ODD), "ModelError", "unknown format"),
        (unstreamed({"choices": [{"finish_reason": "stop", "reply": "a"}]}), "ModelError", "reply"),
        (unstreamed(IMAGE), "ModelError", "image_url"),
        (unstreamed(NUMBER), "ModelError", "neither text nor a list of parts"),
        (malformed('{"error": {"message": "busy", "code": 503}}'), "ModelUnavailable", "503: busy"),
        (malformed('{"error": "broken"}'), "ModelUnavailable", "500: broken"),
        (
            unstreamed({"detail": "Not Found"}),
            "ModelError",
            "without choices: {'detail': 'Not Found'}",
        ),
        (unstreamed({"error": None}), "ModelError", "without choices"),
    ],
)
def test_malformed_answers_are_retried_and_then_reported(
    trouble: Behavior, kind: str, words: str
) -> None:
    found, message, attempts = failure_of_one(trouble, retries=1)
    assert (found, attempts) == (kind, 2)
    assert words in message


@pytest.mark.parametrize(
    ("trouble", "kind", "words"),
    [
        (
            status(400, "BadRequestError", "This model's maximum context length is 8 tokens."),
            "ContextOverflow",
            "shorten the prompt",
        ),
        (status(429, "insufficient_quota", "pay"), "ModelDenied", "429 insufficient_quota"),
        (status(404, "NotFoundError", "no qwen"), "ModelDenied", "serves qwen, qwen-coder"),
        (answer("", reason="content_filter"), "ModelRefused", "declined"),
        (unstreamed(DECLINED), "ModelRefused", "I cannot."),
        (answer("", reason="tool_calls"), "ModelError", "tool_calls"),
    ],
)
def test_permanent_errors_are_not_retried(trouble: Behavior, kind: str, words: str) -> None:
    found, message, attempts = failure_of_one(trouble)
    assert (found, attempts) == (kind, 1)
    assert words in message


def test_key_is_read_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    monkeypatch.setenv("MY_API_KEY", KEY)
    with OpenAIServer(status(401, "invalid_api_key", f"Incorrect API key: {KEY}")) as server:
        [action] = ask_qwen(server, key="MY_API_KEY")
    assert server.keys == [KEY]
    assert action.failure is not None
    assert "[key]; check MY_API_KEY" in action.failure.message


def test_openai_api_needs_a_key() -> None:
    with pytest.raises(ModelUnavailable, match="set OPENAI_API_KEY"):
        OpenAIEngine(OpenAISpec(name="gpt-test"))


def test_base_url_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1/")
    assert OpenAIEngine(OpenAISpec(name="m")).peer == "openai:m at localhost:8000"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:pass@localhost/v1")
    with pytest.raises(RecipeError, match="OPENAI_BASE_URL at localhost has more than host"):
        OpenAIEngine(OpenAISpec(name="m"))


def test_the_short_form_names_address_and_model() -> None:
    spec = SPEC.validate_python("openai:http://localhost:8000/v1/#Qwen/Qwen3-8B")
    assert isinstance(spec, OpenAISpec)
    assert (spec.base_url, spec.name) == ("http://localhost:8000/v1", "Qwen/Qwen3-8B")
    engine = open_model(spec)
    assert engine.name == "openai:Qwen/Qwen3-8B"
    assert SPEC.validate_python(json.loads(spec.model_dump_json())) == spec


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("openai", "name: Field required|Field required"),
        ("openai:http://localhost:8000/v1", "write openai:URL#MODEL"),
        ("openai:localhost:8000/v1#m", "must begin with http:// or https://"),
        ("openai:http://me:pass@localhost/v1#m", "its key comes from the environment"),
        ("openai:http://me:pass/word@localhost/v1#m", "base_url is not an address"),
        ("openai:http://me:pass#word@localhost/v1#m", "base_url is not an address"),
        ({"engine": "openai", "name": "m", "base_url": "localhost:8000"}, "http://HOST:PORT/v1"),
        ({"engine": "openai", "name": "m", "key": "sk-abc"}, "name of an environment variable"),
        ({"engine": "openai", "name": "m", "cost_limit": 1.0}, "input_price and output_price"),
    ],
)
def test_invalid_specs_are_refused(value: object, words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        SPEC.validate_python(value)
    for problem in caught.value.errors():
        assert "pass" not in problem["msg"]
        assert "sk-abc" not in problem["msg"]


def test_concurrent_requests_all_drop_the_refused_fields() -> None:
    strict = refuse("max_tokens", "seed", otherwise=answer("fine"))
    with OpenAIServer(strict) as server:
        actions = ask_qwen(server, *[request_of()] * 4)
    assert [action.text for action in actions] == ["fine"] * 4


def test_a_redirect_is_named() -> None:
    found, message, attempts = failure_of_one(
        lambda handler, _, __: handler.send(307, location="https://there/v1")
    )
    assert (found, attempts) == ("ModelRefused", 1)
    assert "it redirects to https://there/v1; is the URL right?" in message
