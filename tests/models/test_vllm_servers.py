"""The vLLM engine over HTTP, against local servers with vLLM's endpoints and its sampling."""

import asyncio
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.loops import in_loop
from support.vllm_servers.calls import engine_at, failure, publish, request, until
from support.vllm_servers.server import END, LOGPROB, VLLMServer, cut, encode, save_adapter
from support.vllm_servers.twin import VLLMTwin
from transformers import AutoModelForCausalLM

from collab.errors import ModelTimeout
from collab.models import Call, Request
from collab.models.open import open_model
from collab.recipe.model import VLLMSpec
from collab.records import Action, Sampling


@in_loop
async def test_request_sends_token_ids_and_returns_token_ids(tiny: Path) -> None:
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
    assert body["repetition_penalty"] == 1.0, "the tiny model's files set 1.7"


def test_seed_is_sent_only_when_requested(tiny: Path) -> None:
    async def ask(**options: Any) -> tuple[bool, bool]:
        with VLLMServer() as server:
            async with engine_at(tiny, server, **options) as engine:
                [action] = await engine.generate([request(7)])
                assert action.failure is None
                return "seed" in server.bodies[0], engine.capabilities.seeds

    assert asyncio.run(ask(seeds=True)) == (True, True)
    assert asyncio.run(ask(seeds=False)) == (False, False)
    assert not VLLMSpec(name="m").is_seeded
    assert VLLMSpec(name="m", deterministic=True).is_seeded


@in_loop
async def test_progress_reports_every_token(tiny: Path) -> None:
    progress: list[tuple[int, str]] = []
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            [action] = await engine.generate([request()], lambda _, n, t: progress.append((n, t)))
            await asyncio.sleep(0)
    assert "".join(text for _, text in progress) == action.text == "base:0"
    assert [n for n, _ in progress] == sorted(n for n, _ in progress)
    assert len(action.logprobs) == len(action.token_ids) == 7


@in_loop
async def test_stop_strings_truncate_the_text_and_keep_the_tokens(tiny: Path) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            [action] = await engine.generate([request(stop=("se", "nothing"))])
    assert action.text == "ba"
    assert len(action.token_ids) == 7
    assert server.bodies[0]["stop"] == ["se", "nothing"]


@in_loop
async def test_each_published_adapter_gets_a_new_name(tiny: Path) -> None:
    with VLLMServer() as one, VLLMServer() as two:
        async with engine_at(tiny, one, two) as engine:
            for version in ("first", "second", "third"):
                await engine.publish(publish(version), 0)
                actions = await engine.generate([request(n, adapter="a") for n in range(4)])
                assert {a.text.partition(":")[0] for a in actions} == {version}
                assert {a.adapter for a in actions} == {"a"}
                assert len(one.loaded) == len(two.loaded) == 1, "old versions are unloaded"
            [folder] = one.loaded.values()
            assert folder.is_dir()
            assert [p for p in folder.parent.iterdir() if p != folder] == []
        assert not folder.parent.exists(), "closing leaves nothing behind"
    models_requested = {body["model"] for body in one.bodies + two.bodies}
    assert len(models_requested) == 3
    assert all(name.startswith("a@") for name in models_requested)
    assert len(one.forgotten) == len(two.forgotten) == 3, "the last one on closing"


@in_loop
async def test_adapter_folder_of_a_trained_team_is_served(tiny: Path, tmp_path: Path) -> None:
    save_adapter(tmp_path / "adapters" / "aux", "trained")
    folder = str(tmp_path / "adapters" / "aux")
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            engine.check(Sampling(), folder)
            [base, trained] = await engine.generate([request(), request(adapter=folder)])
            assert (base.text, trained.text) == ("base:0", "trained:0")
            save_adapter(Path(folder), "overwritten")
            [again] = await engine.generate([request(adapter=folder)])
            assert again.text == "trained:0", "an adapter folder is read once"


@in_loop
async def test_base_requests_use_a_zero_adapter_beside_others(tiny: Path) -> None:
    """On a CPU, vLLM answers rows without an adapter with the last adapter."""
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            [alone] = await engine.generate([request()])
            await engine.publish(publish("aux"), 0)
            [base, aux] = await engine.generate([request(1), request(2, adapter="a")])
            [blank] = [f for name, f in server.loaded.items() if name.startswith("none@")]
            tensors = load_file(blank / "adapter_model.safetensors")
    assert (alone.text, base.text, aux.text) == ("base:0", "base:1", "aux:2")
    adapters_by_seed = {body["seed"]: body["model"].partition("@")[0] for body in server.bodies}
    assert adapters_by_seed == {0: "base", 1: "none", 2: "a"}
    assert all(not tensor.any() for tensor in tensors.values())
    assert base.adapter is None


@in_loop
async def test_a_missing_adapter_is_reported(tiny: Path) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            [base, missing] = await engine.generate([request(), request(adapter="nowhere")])
    assert base.text == "base:0"
    assert "ModelError" in failure(missing)
    assert "not an adapter that was given to the engine" in failure(missing)
    assert all(body["model"] == "base" for body in server.bodies)


@in_loop
async def test_adapter_forgotten_by_the_server_is_loaded_again(tiny: Path) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            await engine.publish(publish("aux"), 0)
            server.loaded.clear()
            [action] = await engine.generate([request(adapter="a")])
            assert action.text == "aux:0"


@in_loop
async def test_two_servers_share_the_load(tiny: Path) -> None:
    with VLLMServer() as one, VLLMServer() as two:
        one.seconds = two.seconds = 0.2
        async with engine_at(tiny, one, two) as engine:
            actions = await engine.generate([request(n) for n in range(10)])
    assert [a.text for a in actions] == [f"base:{n}" for n in range(10)]
    assert {len(one.bodies), len(two.bodies)} <= {4, 5, 6}


@in_loop
async def test_dead_server_is_left_out_until_it_returns(tiny: Path) -> None:
    with VLLMServer() as one, ExitStack() as life:
        two = life.enter_context(VLLMServer())
        async with engine_at(tiny, one, two) as engine:
            await engine.publish(publish("aux"), 0)
            life.close()
            actions = await engine.generate([request(n, adapter="a") for n in range(6)])
            with VLLMServer(two.port) as again:
                async with asyncio.timeout(10):
                    while not again.bodies:
                        actions += await engine.generate([request(9, adapter="a")] * 2)
            assert [a.text for a in actions[:6]] == [f"aux:{n}" for n in range(6)]
            assert {a.text for a in actions[6:]} == {"aux:9"}
            assert len(again.loaded) == 1


@in_loop
async def test_running_requests_survive_a_server_restart(tiny: Path) -> None:
    with ExitStack() as life:
        server = life.enter_context(VLLMServer())
        async with engine_at(tiny, server) as engine:
            await engine.publish(publish("aux"), 0)
            server.seconds = 30.0
            server.trouble = [cut()] * 4
            call = asyncio.create_task(engine.generate([request(n, adapter="a") for n in range(4)]))
            await until(lambda: len(server.bodies) == 4)
            await asyncio.to_thread(life.close)
            await asyncio.sleep(0.5)
            with VLLMServer(server.port) as again:
                actions = await call
    assert [a.text for a in actions] == [f"aux:{n}" for n in range(4)]
    assert len(again.loaded) == 1


@in_loop
async def test_server_that_stays_down_times_out(tiny: Path) -> None:
    with ExitStack() as life:
        server = life.enter_context(VLLMServer())
        async with engine_at(tiny, server, ready_seconds=1.0) as engine:
            [action] = await engine.generate([request()])
            assert action.failure is None
            life.close()
            started = time.monotonic()
            [action] = await engine.generate([request()])
            assert 0.9 < time.monotonic() - started < 5
            message = failure(action)
    assert message.startswith("ModelTimeout")
    assert server.url in message
    assert "1 s" in message
    assert "ready_seconds" in message


@in_loop
async def test_server_that_never_starts_times_out(tiny: Path) -> None:
    with VLLMServer() as server:
        pass
    async with engine_at(tiny, server, ready_seconds=0.6) as engine:
        with pytest.raises(ModelTimeout, match=f"{server.url}: ConnectError"):
            await engine.generate([request()])


@in_loop
async def test_server_that_starts_late_is_used(tiny: Path) -> None:
    with VLLMServer() as server:
        pass
    async with engine_at(tiny, server, ready_seconds=0.6) as engine:
        with pytest.raises(ModelTimeout):
            await engine.generate([request()])
        with VLLMServer(server.port):
            [action] = await engine.generate([request()])
    assert action.text == "base:0"


@in_loop
async def test_silent_server_is_named_in_the_error(tiny: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        spec = VLLMSpec(name=str(tiny), servers=(url,), ready_seconds=0.5)
        engine = open_model(spec)
        with pytest.raises(ModelTimeout, match=f"within 0.5 s .{url}: it has not answered yet"):
            await engine.generate([request()])
        await engine.aclose()


@in_loop
async def test_a_server_that_is_still_starting_is_waited_for(tiny: Path) -> None:
    with VLLMServer() as server:
        pass
    async with engine_at(tiny, server) as engine:
        call = asyncio.create_task(engine.generate([request()]))
        await asyncio.sleep(0.3)
        with VLLMServer(server.port):
            [action] = await call
    assert action.text == "base:0"


NOISE = 1e-4
"""Difference, in nats, between a padded batch and a single row."""
WHOLE = Sampling(max_new_tokens=24)
SETTINGS = [
    WHOLE,
    WHOLE.model_copy(update={"temperature": 0.7, "top_p": 0.6}),
    WHOLE.model_copy(update={"top_k": 3}),
    WHOLE.model_copy(update={"temperature": 1.5, "top_p": 0.8, "top_k": 5}),
]


def sampled(tiny: Path) -> list[Action]:
    async def ask() -> list[Action]:
        with VLLMTwin(tiny) as server:
            engine = open_model(VLLMSpec(name=str(tiny), servers=(server.url,), seeds=True))
            try:
                return await engine.generate([request_with(s, n) for n, s in enumerate(SETTINGS)])
            finally:
                await engine.aclose()

    return asyncio.run(ask())


def request_with(sampling: Sampling, seed: int) -> Request:
    call = Call(task="t/0", sample=seed, turn=0, round=0, agent="a")
    return Request(call=call, prompt_ids=(1, 2, 3), sampling=sampling, seed=seed)


def test_logprobs_match_the_truncated_distribution(tiny: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    for sampling, action in zip(SETTINGS, sampled(tiny), strict=True):
        assert action.failure is None
        ids = torch.tensor([[*action.prompt_ids, *action.token_ids]])
        with torch.no_grad():
            logits = model(ids).logits[0, len(action.prompt_ids) - 1 : -1]
        token_ids = torch.tensor(action.token_ids)[:, None]
        found = torch.tensor(action.logprobs)
        expected = truncated(logits, sampling).log_softmax(-1).gather(1, token_ids)[:, 0]
        assert (found - expected).abs().max() < NOISE
        full = (logits / sampling.temperature).log_softmax(-1).gather(1, token_ids)[:, 0]
        assert ((found - full).abs().max() > 0.1) == (sampling != WHOLE)


def truncated(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Follow vLLM's documentation: temperature, then top_k, then top_p."""
    scaled = logits / sampling.temperature  # [tokens, vocabulary]
    if sampling.top_k:
        least = scaled.topk(sampling.top_k).values[:, -1:]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    ordered, index = scaled.sort(descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
    beyond = (before >= sampling.top_p).scatter(1, index, before >= sampling.top_p)
    return scaled.masked_fill(beyond, -torch.inf)
