"""The vLLM engine over HTTP, against a local server that speaks vLLM's endpoints."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from support.vllm_servers.server import (
    END,
    LOGPROB,
    Behaviour,
    VLLMServer,
    cut,
    encode,
    garbled,
    malformed,
    save_adapter,
    status,
)

from collab.errors import ModelTimeout, ModelUnavailable, RecipeError
from collab.models import Call, Request, RolloutEngine
from collab.models.open import open_model
from collab.models.vllm.engine import VLLMEngine
from collab.recipe.model import VLLMModel
from collab.records import Action, Sampling


@asynccontextmanager
async def engine_at(tiny: Path, *servers: VLLMServer, **options: Any) -> AsyncIterator[VLLMEngine]:
    urls = tuple(server.url for server in servers)
    engine = open_model(VLLMModel(name=str(tiny), servers=urls, **options))
    assert isinstance(engine, VLLMEngine)
    assert isinstance(engine, RolloutEngine)
    try:
        yield engine
    finally:
        await engine.aclose()


def request(seed: int = 0, *, adapter: str | None = None, **sampling: Any) -> Request:
    return Request(
        call=Call(task="t/0", sample=seed, turn=0, round=0, agent="a"),
        prompt_ids=(1, 2, 3),
        sampling=Sampling(**{"max_new_tokens": 20, **sampling}),
        adapter=adapter,
        seed=seed,
    )


def publish(name: str, **files: Any) -> dict[str, Callable[[Path], None]]:
    """A new version of adapter `a`."""
    return {"a": lambda folder: save_adapter(folder, name, **files)}


def failure(action: Action) -> str:
    assert action.failure is not None, action.text
    return f"{action.failure.type}: {action.failure.message}"


def test_tokens_go_in_and_come_out(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                [action, short] = await engine.generate(
                    [request(7), request(8, max_new_tokens=2, temperature=0.5, top_k=3)]
                )
        assert action.token_ids == (*encode("base:7"), END)
        assert action.logprobs == (LOGPROB,) * 7
        assert (action.text, action.finish_reason) == ("base:7", "stop")
        assert (action.prompt_ids, action.usage.prompt_tokens) == ((1, 2, 3), 3)
        assert (short.text, short.finish_reason, short.usage.new_tokens) == ("ba", "length", 2)
        body = next(body for body in server.bodies if body["seed"] == 8)
        sent = {key: body[key] for key in ("prompt", "temperature", "top_k", "top_p", "min_p")}
        assert sent == {
            "prompt": [1, 2, 3], "temperature": 0.5, "top_k": 3, "top_p": 1.0, "min_p": 0.0,
        }  # fmt: skip
        assert body["stop_token_ids"] == [END]
        assert body["repetition_penalty"] == 1.0, "the tiny model's own files say 1.7"

    asyncio.run(ask())


def test_progress_tells_every_token(tiny: Path) -> None:
    async def ask() -> None:
        told: list[tuple[int, str]] = []
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                [action] = await engine.generate([request()], lambda _, n, t: told.append((n, t)))
                await asyncio.sleep(0)
        assert "".join(text for _, text in told) == action.text == "base:0"
        assert [n for n, _ in told] == sorted(n for n, _ in told)
        assert len(action.logprobs) == len(action.token_ids) == 7

    asyncio.run(ask())


def test_stop_strings_cut_the_text_and_keep_the_tokens(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                [action] = await engine.generate([request(stop=("se", "nothing"))])
        assert action.text == "ba"
        assert len(action.token_ids) == 7
        assert server.bodies[0]["stop"] == ["se", "nothing"]

    asyncio.run(ask())


def test_a_published_adapter_is_a_new_name_each_time(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as one, VLLMServer() as two:
            async with engine_at(tiny, one, two) as engine:
                for version in ("first", "second", "third"):
                    await engine.publish(publish(version))
                    actions = await engine.generate([request(n, adapter="a") for n in range(4)])
                    assert {a.text.partition(":")[0] for a in actions} == {version}
                    assert {a.adapter for a in actions} == {"a"}
                    assert len(one.loaded) == len(two.loaded) == 1, "old versions are unloaded"
                [folder] = one.loaded.values()
                assert folder.is_dir()
                assert [p for p in folder.parent.iterdir() if p != folder] == []
            assert not folder.parent.exists(), "closing leaves nothing behind"
        asked = {body["model"] for body in one.bodies + two.bodies}
        assert len(asked) == 3
        assert all(name.startswith("a@") for name in asked)
        assert len(one.forgotten) == len(two.forgotten) == 2

    asyncio.run(ask())


def test_the_folder_of_a_trained_team_answers(tiny: Path, tmp_path: Path) -> None:
    async def ask() -> None:
        save_adapter(tmp_path / "adapters" / "aux", "trained")
        folder = str(tmp_path / "adapters" / "aux")
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                engine.check(Sampling(), folder)
                [base, trained] = await engine.generate([request(), request(adapter=folder)])
                assert (base.text, trained.text) == ("base:0", "trained:0")
                save_adapter(Path(folder), "overwritten")
                [again] = await engine.generate([request(adapter=folder)])
                assert again.text == "trained:0", "a folder is read once"

    asyncio.run(ask())


def test_the_base_has_an_adapter_of_zeros_beside_others(tiny: Path) -> None:
    """vLLM on a CPU answers rows without an adapter by the one in the last place."""

    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                [alone] = await engine.generate([request()])
                await engine.publish(publish("aux"))
                [base, aux] = await engine.generate([request(1), request(2, adapter="a")])
                [blank] = [f for name, f in server.loaded.items() if name.startswith("none@")]
                tensors = load_file(blank / "adapter_model.safetensors")
        assert (alone.text, base.text, aux.text) == ("base:0", "base:1", "aux:2")
        asked = {body["seed"]: body["model"].partition("@")[0] for body in server.bodies}
        assert asked == {0: "base", 1: "none", 2: "a"}
        assert all(not tensor.any() for tensor in tensors.values())
        assert base.adapter is None

    asyncio.run(ask())


def test_a_missing_adapter_is_reported(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                [base, missing] = await engine.generate([request(), request(adapter="nowhere")])
        assert base.text == "base:0"
        assert "ModelError" in failure(missing)
        assert "no adapter that was given to the engine" in failure(missing)
        assert all(body["model"] == "base" for body in server.bodies)

    asyncio.run(ask())


def test_an_adapter_that_the_server_forgot_is_given_anew(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                await engine.publish(publish("aux"))
                server.loaded.clear()
                [action] = await engine.generate([request(adapter="a")])
                assert action.text == "aux:0"

    asyncio.run(ask())


def test_two_servers_share_the_load(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as one, VLLMServer() as two:
            one.seconds = two.seconds = 0.2
            async with engine_at(tiny, one, two) as engine:
                actions = await engine.generate([request(n) for n in range(10)])
        assert [a.text for a in actions] == [f"base:{n}" for n in range(10)]
        assert len(one.bodies) == len(two.bodies) == 5

    asyncio.run(ask())


def test_a_server_that_dies_is_left_out_until_it_is_back(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as one, ExitStack() as life:
            two = life.enter_context(VLLMServer())
            async with engine_at(tiny, one, two) as engine:
                await engine.publish(publish("aux"))
                life.close()
                actions = await engine.generate([request(n, adapter="a") for n in range(6)])
                with VLLMServer(two.port) as again:
                    async with asyncio.timeout(10):
                        while not again.bodies:
                            actions += await engine.generate([request(9, adapter="a")] * 2)
                assert [a.text for a in actions[:6]] == [f"aux:{n}" for n in range(6)]
                assert {a.text for a in actions[6:]} == {"aux:9"}
                assert len(again.loaded) == 1

    asyncio.run(ask())


def test_requests_under_way_survive_a_restart(tiny: Path) -> None:
    async def ask() -> None:
        with ExitStack() as life:
            server = life.enter_context(VLLMServer())
            async with engine_at(tiny, server) as engine:
                await engine.publish(publish("aux"))
                server.seconds = 30.0
                server.trouble = [cut()] * 4
                call = asyncio.create_task(
                    engine.generate([request(n, adapter="a") for n in range(4)])
                )
                await until(lambda: len(server.bodies) == 4)
                await asyncio.to_thread(life.close)
                await asyncio.sleep(0.5)
                with VLLMServer(server.port) as again:
                    actions = await call
        assert [a.text for a in actions] == [f"aux:{n}" for n in range(4)]
        assert len(again.loaded) == 1

    asyncio.run(ask())


def test_a_server_that_stays_away_ends_the_wait(tiny: Path) -> None:
    async def ask() -> None:
        with ExitStack() as life:
            server = life.enter_context(VLLMServer())
            async with engine_at(tiny, server, ready_seconds=1.0) as engine:
                [action] = await engine.generate([request()])
                assert action.failure is None
                life.close()
                started = time.monotonic()
                [action] = await engine.generate([request()])
                assert 0.9 < time.monotonic() - started < 5
                said = failure(action)
        assert said.startswith("ModelTimeout")
        assert server.url in said
        assert "1 s" in said
        assert "ready_seconds" in said

    asyncio.run(ask())


def test_a_server_that_is_not_there_at_all(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            pass
        async with engine_at(tiny, server, ready_seconds=0.6) as engine:
            with pytest.raises(ModelTimeout, match=f"{server.url}: ConnectError"):
                await engine.generate([request()])

    asyncio.run(ask())


def test_a_server_that_comes_after_all_is_asked(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            pass
        async with engine_at(tiny, server, ready_seconds=0.6) as engine:
            with pytest.raises(ModelTimeout):
                await engine.generate([request()])
            with VLLMServer(server.port):
                [action] = await engine.generate([request()])
        assert action.text == "base:0"

    asyncio.run(ask())


def test_a_server_that_says_nothing_is_named(tiny: Path) -> None:
    async def ask() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            spec = VLLMModel(name=str(tiny), servers=(url,), ready_seconds=0.5)
            engine = open_model(spec)
            with pytest.raises(ModelTimeout, match=f"within 0.5 s .{url}: it has not said a word"):
                await engine.generate([request()])
            await engine.aclose()

    asyncio.run(ask())


def test_a_server_that_is_still_starting_is_waited_for(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            pass
        async with engine_at(tiny, server) as engine:
            call = asyncio.create_task(engine.generate([request()]))
            await asyncio.sleep(0.3)
            with VLLMServer(server.port):
                [action] = await call
        assert action.text == "base:0"

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        (status(400, "prompt is too odd"), "ModelRefused", "status 400: prompt is too odd"),
        (status(401), "ModelUnavailable", "set VLLM_API_KEY"),
        (malformed(), "ModelError", "sent no JSON: '<html>'"),
        (malformed("{}"), "ModelError", "another shape"),
        (
            malformed('{"choices": [{"text": "a", "token_ids": [1], "logprobs": null}]}'),
            "ModelError",
            "1 token ids and 0 log-probabilities",
        ),
    ],
)
def test_a_refusal_is_the_requests_own(
    tiny: Path, behaviour: Behaviour, kind: str, words: str
) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            server.trouble = [behaviour]
            async with engine_at(tiny, server) as engine:
                first, second = await engine.generate([request(0), request(1)])
        failed, answered = (first, second) if first.failure else (second, first)
        assert answered.failure is None
        assert failure(failed).startswith(kind)
        assert words in failure(failed)
        assert server.url in failure(failed)

    asyncio.run(ask())


@pytest.mark.parametrize(
    "behaviour", [status(500), status(503), cut(), malformed('{"error": "x"}'), garbled()]
)
def test_trouble_that_passes_is_survived(tiny: Path, behaviour: Behaviour) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            server.trouble = [behaviour] * 3
            async with engine_at(tiny, server) as engine:
                [action] = await engine.generate([request()])
                assert action.text == "base:0"
                server.trouble = [behaviour] * 4
                [action] = await engine.generate([request()])
        assert "ModelUnavailable: 4 attempts at one response failed" in failure(action)
        assert server.url in failure(action)

    asyncio.run(ask())


@pytest.mark.parametrize("behaviour", [status(502), cut()])
def test_an_adapter_is_offered_a_few_times(tiny: Path, behaviour: Behaviour) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            server.reluctance = [behaviour] * 3
            async with engine_at(tiny, server) as engine:
                await engine.publish(publish("aux"))
                [action] = await engine.generate([request(adapter="a")])
                assert action.text == "aux:0"
                server.reluctance = [behaviour] * 4
                with pytest.raises(ModelUnavailable, match=f"4 attempts .* {server.url}"):
                    await engine.publish(publish("aux"))

    asyncio.run(ask())


def test_a_slow_server_is_given_up(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server, seconds=0.3) as engine:
                server.seconds = 5.0
                [action] = await engine.generate([request()])
        assert failure(action).startswith(f"ModelTimeout: {server.url} did not answer within 0.3 s")

    asyncio.run(ask())


def test_cancellation_is_quick(tiny: Path) -> None:
    async def ask() -> None:
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

    asyncio.run(ask())


def test_a_server_with_raw_log_probabilities_is_refused(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer(raw=True) as server:
            async with engine_at(tiny, server) as engine:
                with pytest.raises(ModelUnavailable, match="--logprobs-mode processed_logprobs"):
                    await engine.generate([request()])

    asyncio.run(ask())


def test_a_server_without_runtime_adapters_says_how_to_start_it(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer(lora=False) as server:
            async with engine_at(tiny, server) as engine:
                with pytest.raises(ModelUnavailable, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
                    await engine.publish(publish("aux"))

    asyncio.run(ask())


def test_a_rank_beyond_the_servers_is_reported(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                with pytest.raises(ModelUnavailable, match="greater than max_lora_rank 16") as told:
                    await engine.publish(publish("aux", rank=32))
        assert "R at least 32" in str(told.value)

    asyncio.run(ask())


def test_the_key_is_sent_and_not_shown(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        monkeypatch.setenv("VLLM_API_KEY", "secret-key\n")
        with VLLMServer() as server:
            server.trouble = [status(401, "no"), status(400, "odd: Bearer secret-key")]
            async with engine_at(tiny, server, ready_seconds=5.0) as engine:
                actions = await engine.generate([request(n) for n in range(2)])
        assert server.keys == {"Bearer secret-key"}
        told = {failure(action) for action in actions}
        assert any("odd: Bearer [key]" in said for said in told)
        assert not any("secret-key" in said for said in told)

    asyncio.run(ask())


def test_the_smaller_context_holds(tiny: Path) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                [action] = await engine.generate([request(max_new_tokens=148)])
                assert "ContextOverflow" in failure(action)
                assert "150 tokens" in failure(action)
            async with engine_at(tiny, server, context=30) as engine:
                [action] = await engine.generate([request(max_new_tokens=28)])
                assert "30 tokens" in failure(action)
        assert not server.bodies

    asyncio.run(ask())


def test_an_engine_serves_one_event_loop_after_another(tiny: Path) -> None:
    with VLLMServer() as server:
        engine = open_model(VLLMModel(name=str(tiny), servers=(server.url,)))
        try:
            for seed in range(2):
                [action] = asyncio.run(engine.generate([request(seed)]))
                assert action.text == f"base:{seed}"
        finally:
            asyncio.run(engine.aclose())
        asyncio.run(engine.aclose())
    assert not [t for t in threading.enumerate() if t.name == engine.name]


@pytest.mark.parametrize("temperature", [0.005, 2.5])
def test_settings_that_vllm_would_change_are_refused(tiny: Path, temperature: float) -> None:
    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server) as engine:
                with pytest.raises(RecipeError, match=rf"from 0\.01 to 2, not at {temperature}"):
                    engine.check(Sampling(temperature=temperature), None)
                [action] = await engine.generate([request(temperature=temperature)])
        assert failure(action).startswith("RecipeError")
        assert not server.bodies

    asyncio.run(ask())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.02)
