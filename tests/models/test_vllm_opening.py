"""Connecting to vLLM servers: before the first request, to absent ones, and past a proxy."""

import asyncio
import time
from pathlib import Path

import pytest
from support.loops import in_loop
from support.vllm_servers.calls import engine_at, publish, request
from support.vllm_servers.server import VLLMServer

from collab.errors import ModelTimeout
from collab.records import Action


@in_loop
async def test_engine_can_be_opened_before_the_first_request(tiny: Path) -> None:
    with VLLMServer() as server:
        async with engine_at(tiny, server) as engine:
            await engine.open_early()
            assert engine.tokenizer is not None
            assert server.bodies == []
    with VLLMServer() as server:
        server.shut()
        async with engine_at(tiny, server, ready_seconds=0.5) as engine:
            with pytest.raises(ModelTimeout, match="no answer from vLLM within"):
                await engine.open_early()


def test_concurrent_requests_wait_once_for_an_absent_server(tiny: Path) -> None:
    async def go() -> list[BaseException | list[Action]]:
        with VLLMServer() as server:
            server.shut()
            async with engine_at(tiny, server, ready_seconds=1.0) as engine:
                calls = [engine.generate([request(n)]) for n in range(6)]
                return await asyncio.gather(*calls, return_exceptions=True)

    began = time.monotonic()
    for error in asyncio.run(go()):
        assert isinstance(error, ModelTimeout)
        assert "no answer from vLLM within 1 s" in str(error)
    assert time.monotonic() - began < 4, "the requests share one wait"


def test_environment_proxy_is_not_used_for_localhost(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def ask() -> None:
        with VLLMServer() as server:
            async with engine_at(tiny, server, ready_seconds=5.0) as engine:
                [action] = await engine.generate([request()])
        assert action.text == "base:0"

    asyncio.run(ask())


@in_loop
async def test_remaining_servers_unload_the_adapters_on_closing(tiny: Path) -> None:
    with VLLMServer() as server, VLLMServer() as lost_server:
        async with engine_at(tiny, server, lost_server) as engine:
            await engine.publish(publish("one"), 1)
            await engine.generate([request(adapter="a"), request()])
            assert server.loaded
            lost_server.shut()
        assert not server.loaded
