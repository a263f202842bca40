"""Distribution of requests over vLLM servers, and reports of the servers' load."""

import asyncio
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.loops import in_loop
from support.vllm_servers.calls import engine_at, publish, request, until
from support.vllm_servers.server import VLLMServer, status

from collab.errors import ModelUnavailable
from collab.models import Call
from collab.models.vllm import servers as servers_module
from collab.models.vllm.backend import Capacity, prefix_key
from collab.models.vllm.calls import engine_options
from collab.models.vllm.process import environment_of
from collab.models.vllm.servers import PREEMPTED_METRIC, WAITING_METRIC, route
from collab.recipe.model import VLLMSpec


def places(number: int) -> list[Any]:
    return [SimpleNamespace(url=f"http://host-{n}:8000", in_flight=0) for n in range(number)]


def sent(servers: list[Any], keys: list[str]) -> dict[str, Counter[str]]:
    """Route requests that all stay open; count them by key and server."""
    found: dict[str, Counter[str]] = {key: Counter() for key in keys}
    for key in keys:
        server = route(servers, key)
        server.in_flight += 1
        found[key][server.url] += 1
    return found


def test_requests_with_the_same_prefix_share_a_server() -> None:
    servers = places(4)
    keys = [
        prefix_key(Call(task=f"t/{n}", sample=0, turn=0, round=0, agent="a"), "a@1")
        for n in range(100)
    ]
    found = sent(servers, keys * 8)
    together = sum(max(where.values()) for where in found.values()) / 800
    assert together > 0.6
    loads = [server.in_flight for server in servers]
    assert max(loads) <= 1.25 * 200 + 1
    assert min(loads) > 100


def test_single_prompt_is_spread_when_its_server_is_loaded() -> None:
    servers = places(4)
    sent(servers, ["t/0|a|"] * 40)
    assert all(2 <= server.in_flight <= 13 for server in servers)


def test_losing_a_server_moves_only_its_own_requests() -> None:
    servers, keys = places(5), [f"t/{n}|a|" for n in range(200)]
    before = {key: route(servers, key).url for key in keys}
    after = {key: route(servers[1:], key).url for key in keys}
    moved = {key for key in keys if before[key] != after[key]}
    assert moved == {key for key in keys if before[key] == servers[0].url}


def test_prefix_keys_depend_on_task_agent_and_weights() -> None:
    call = Call(task="t/0", sample=0, turn=0, round=0, agent="a")
    later = call.model_copy(update={"sample": 3, "turn": 1})
    assert prefix_key(call, "a@1") == prefix_key(later, "a@1")
    others = [call.model_copy(update={"task": "t/1"}), call.model_copy(update={"agent": "b"})]
    keys = {prefix_key(each, "a@1") for each in (call, *others)} | {prefix_key(call, "a@2")}
    assert len(keys) == 4


@in_loop
async def test_running_responses_finish_under_their_own_version(tiny: Path) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            await engine.publish(publish("first"), 3)
            server.seconds = 0.3
            call = asyncio.create_task(engine.generate([request(1, adapter="a")]))
            await until(lambda: len(server.bodies) == 1)
            publishing = asyncio.create_task(engine.publish(publish("second"), 4))
            await asyncio.sleep(0.1)
            [new] = await engine.generate([request(2, adapter="a")])
            [[old], _] = await asyncio.gather(call, publishing)
            [base] = await engine.generate([request(3)])
    assert (old.text, old.version) == ("first:1", 3)
    assert (new.text, new.version) == ("second:2", 4)
    assert base.version is None


@in_loop
async def test_the_load_of_each_server_is_reported_once(tiny: Path) -> None:
    with VLLMServer() as one, VLLMServer() as two:
        one.load = {WAITING_METRIC: 3.0, PREEMPTED_METRIC: 10.0}
        async with engine_at(tiny, one, two) as engine:
            assert (await engine.report()).metrics == {}, "no request was sent yet"
            one.seconds = two.seconds = 0.2
            await engine.generate([request(n) for n in range(4)])
            one.load = {WAITING_METRIC: 0.0, PREEMPTED_METRIC: 14.0}
            first = (await engine.report()).metrics
            second = (await engine.report()).metrics
    assert first["1/waiting"] == 3
    assert first["1/preempted"] == 4, "preemptions before the first request do not count"
    assert first["1/in_flight"] + first["2/in_flight"] == 4
    assert "2/waiting" not in first, "the second server reports no load"
    assert (second["1/preempted"], second["1/in_flight"]) == (0, 0)


@in_loop
async def test_lost_server_is_reported_once(tiny: Path) -> None:
    with VLLMServer() as one, ExitStack() as life:
        two = life.enter_context(VLLMServer())
        async with engine_at(tiny, one, two) as engine:
            await engine.generate([request(n) for n in range(4)])
            life.close()
            actions = await engine.generate([request(n) for n in range(4)])
            warnings = (await engine.report()).warnings
            again = (await engine.report()).warnings
    assert all(action.failure is None for action in actions)
    assert len(warnings) == 1
    assert f"vLLM server {two.url} was lost (" in warnings[0]
    assert again == ()


def test_server_that_does_not_see_adapters_names_the_shared_folder(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(servers_module, "LAG_SECONDS", 0.1)

    async def ask() -> None:
        paths: list[str] = []

        def elsewhere(handler: Any, body: dict[str, Any]) -> None:
            paths.append(body["lora_path"])
            message = f"Loading lora failed: No adapter found for {paths[-1]}"
            status(404, message)(handler)

        with VLLMServer() as server:
            monkeypatch.setattr(server, "_load", elsewhere)
            async with engine_at(tiny, server, adapter_folder="shared") as engine:
                with pytest.raises(ModelUnavailable, match="set the model's adapter_folder to a"):
                    await engine.publish(publish("aux"), 0)
        assert all(Path(path).parent.parent == tmp_path / "shared" for path in paths)

    asyncio.run(ask())


def test_adapter_load_is_retried_on_a_slow_shared_disk(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collab.models.vllm.server.LAG_POLL_SECONDS", 0.05)

    async def ask() -> None:
        with VLLMServer() as server:
            server.reluctance = [status(404, "no adapter found")] * 3
            async with engine_at(tiny, server, adapter_folder=str(tmp_path)) as engine:
                await engine.publish(publish("aux"), 0)
                [action] = await engine.generate([request(adapter="a")])
                assert action.text == "aux:0"
                monkeypatch.setattr(servers_module, "LAG_SECONDS", 0.2)
            server.reluctance = [status(404, "no adapter found")] * 100
            async with engine_at(tiny, server, adapter_folder=str(tmp_path)) as engine:
                began = time.monotonic()
                with pytest.raises(ModelUnavailable, match="no adapter found"):
                    await engine.publish(publish("aux"), 0)
                assert time.monotonic() - began < 5

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("option", "flag"),
    [
        ({"deterministic": True}, "VLLM_BATCH_INVARIANT=1"),
        ({"tensor_parallel": 2}, "--tensor-parallel-size"),
    ],
)
def test_server_side_options_name_flag_to_start_with(option: dict[str, object], flag: str) -> None:
    with pytest.raises(ValueError, match=flag):
        VLLMSpec.model_validate({"name": "m", "servers": ["http://h:1"], **option})


def test_deterministic_option_enables_batch_invariant_kernels() -> None:
    assert environment_of(VLLMSpec(name="m", deterministic=True))["VLLM_BATCH_INVARIANT"] == "1"
    assert "VLLM_BATCH_INVARIANT" not in environment_of(VLLMSpec(name="m"))


def test_each_engine_start_uses_a_different_seed(tiny: Path) -> None:
    spec = VLLMSpec(name=str(tiny), kv_cache_gb=0.01)
    seeds = {engine_options(spec, tiny, Capacity(), sleep=False)["seed"] for _ in range(3)}
    assert len(seeds) == 3


def test_tensor_parallel_option_reaches_the_engine(tiny: Path) -> None:
    spec = VLLMSpec(name=str(tiny), tensor_parallel=2, kv_cache_gb=0.01)
    options = engine_options(spec, tiny, Capacity(), sleep=False)
    assert options["tensor_parallel_size"] == 2
