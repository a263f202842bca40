"""Errors of vLLM servers: temporary ones are waited for, others reported."""

import asyncio
import threading
import time
from pathlib import Path

import pytest
from support.loops import in_loop
from support.vllm_servers.calls import engine_at, failure, publish, request, until
from support.vllm_servers.server import Behavior, VLLMServer, cut, malformed, status

from collab.errors import ModelUnavailable, RecipeError
from collab.models.open import open_model
from collab.recipe.model import VLLMSpec
from collab.records import Sampling


@pytest.mark.parametrize(
    ("behavior", "kind", "words"),
    [
        (status(400, "prompt is too odd"), "ModelRefused", "status 400: prompt is too odd"),
        (status(401), "ModelUnavailable", "set VLLM_API_KEY"),
        (malformed(), "ModelError", "did not send JSON: '<html>'"),
        (malformed("{}"), "ModelError", "unknown format"),
        (
            malformed('{"choices": [{"text": "a", "token_ids": [1], "logprobs": null}]}'),
            "ModelError",
            "1 token ids and 0 log-probabilities",
        ),
    ],
)
@in_loop
async def test_refused_request_fails_alone(
    tiny: Path, behavior: Behavior, kind: str, words: str
) -> None:
    with VLLMServer() as server:
        server.trouble = [behavior]
        async with engine_at(tiny, server) as engine:
            first, second = await engine.generate([request(0), request(1)])
    failed, answered = (first, second) if first.failure else (second, first)
    assert answered.failure is None
    assert failure(failed).startswith(kind)
    assert words in failure(failed)
    assert server.url in failure(failed)


@pytest.mark.parametrize("behavior", [status(500), status(503), cut(), malformed('{"error": "x"}')])
@in_loop
async def test_temporary_errors_are_retried(tiny: Path, behavior: Behavior) -> None:
    with VLLMServer() as server:
        server.trouble = [behavior] * 3
        async with engine_at(tiny, server) as engine:
            [action] = await engine.generate([request()])
            assert action.text == "base:0"
            server.trouble = [behavior] * 4
            [action] = await engine.generate([request()])
    assert "ModelUnavailable: 4 attempts at one response failed" in failure(action)
    assert server.url in failure(action)


@pytest.mark.parametrize("behavior", [status(502), cut()])
@in_loop
async def test_adapter_load_is_retried_a_few_times(tiny: Path, behavior: Behavior) -> None:
    with VLLMServer() as server:
        server.reluctance = [behavior] * 3
        async with engine_at(tiny, server) as engine:
            await engine.publish(publish("aux"), 0)
            [action] = await engine.generate([request(adapter="a")])
            assert action.text == "aux:0"
            server.reluctance = [behavior] * 4
            with pytest.raises(ModelUnavailable, match=f"4 attempts .* {server.url}"):
                await engine.publish(publish("aux"), 0)


@in_loop
async def test_slow_server_times_out(tiny: Path) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server, seconds=0.3) as engine:
            server.seconds = 5.0
            [action] = await engine.generate([request()])
    assert failure(action).startswith(f"ModelTimeout: {server.url} did not answer within 0.3 s")


@in_loop
async def test_cancellation_is_quick(tiny: Path) -> None:
    with VLLMServer() as server:
        server.seconds = 5.0
        async with engine_at(tiny, server) as engine:
            call = asyncio.create_task(engine.generate([request()]))
            await until(lambda: bool(server.bodies))
            started = time.monotonic()
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
            assert time.monotonic() - started < 1
            server.seconds = 0.0
            [action] = await engine.generate([request()])
            assert action.text == "base:0"


@in_loop
async def test_a_server_with_raw_log_probabilities_is_refused(tiny: Path) -> None:
    with VLLMServer(raw=True) as server:
        async with engine_at(tiny, server) as engine:
            with pytest.raises(ModelUnavailable, match="--logprobs-mode processed_logprobs"):
                await engine.generate([request()])


@in_loop
async def test_server_without_runtime_adapters_names_the_setting(tiny: Path) -> None:
    with VLLMServer(lora=False) as server:
        async with engine_at(tiny, server) as engine:
            with pytest.raises(ModelUnavailable, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
                await engine.publish(publish("aux"), 0)


@in_loop
async def test_adapter_rank_above_the_server_limit_is_reported(tiny: Path) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            with pytest.raises(ModelUnavailable, match="greater than max_lora_rank 16") as error:
                await engine.publish(publish("aux", rank=32), 0)
    assert "R at least 32" in str(error.value)


@in_loop
async def test_the_key_is_sent_and_not_shown(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "secret-key\n")
    with VLLMServer() as server:
        server.trouble = [status(401, "no"), status(400, "odd: Bearer secret-key")]
        async with engine_at(tiny, server, ready_seconds=5.0) as engine:
            actions = await engine.generate([request(n) for n in range(2)])
    assert server.keys == {"Bearer secret-key"}
    failures = {failure(action) for action in actions}
    assert any("odd: Bearer [key]" in text for text in failures)
    assert not any("secret-key" in text for text in failures)


@in_loop
async def test_smaller_of_both_context_limits_applies(tiny: Path) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            [action] = await engine.generate([request(max_new_tokens=148)])
            assert "ContextOverflow" in failure(action)
            assert "150 tokens" in failure(action)
        async with engine_at(tiny, server, context=30) as engine:
            [action] = await engine.generate([request(max_new_tokens=28)])
            assert "30 tokens" in failure(action)
    assert not server.bodies


def test_an_engine_serves_one_event_loop_after_another(tiny: Path) -> None:
    with VLLMServer() as server:
        engine = open_model(VLLMSpec(name=str(tiny), servers=(server.url,), seeds=True))
        try:
            for seed in range(2):
                [action] = asyncio.run(engine.generate([request(seed)]))
                assert action.text == f"base:{seed}"
        finally:
            asyncio.run(engine.aclose())
        asyncio.run(engine.aclose())
    assert not [t for t in threading.enumerate() if t.name == engine.name]


@pytest.mark.parametrize("temperature", [0.005, 2.5])
@in_loop
async def test_settings_that_vllm_would_change_are_refused(tiny: Path, temperature: float) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            with pytest.raises(RecipeError, match=rf"from 0\.01 to 2, not at {temperature}"):
                engine.check(Sampling(temperature=temperature), None)
            [action] = await engine.generate([request(temperature=temperature)])
    assert failure(action).startswith("RecipeError")
    assert not server.bodies
