"""Connecting to vLLM servers, and closing them: early, late, past a proxy, and by force."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.loops import in_loop
from support.vllm_servers.calls import engine_at, publish, request, until
from support.vllm_servers.server import VLLMServer

from collab.errors import ModelTimeout, ModelUnavailable
from collab.models.vllm import guard, own_server
from collab.models.vllm.backend import Capacity
from collab.models.vllm.own_server import OwnServer
from collab.recipe.model import VLLMSpec
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


@in_loop
async def test_running_requests_end_when_the_engine_is_closed(tiny: Path) -> None:
    with VLLMServer() as server:
        server.seconds = 60.0
        async with engine_at(tiny, server) as engine:
            running = asyncio.create_task(engine.generate([request()]))
            await until(lambda: bool(server.bodies))
            await asyncio.gather(engine.aclose(), engine.aclose())
            server.seconds = 0.0
            for work in (running, engine.generate([request()])):
                with pytest.raises(ModelUnavailable, match="is closed"):
                    await asyncio.wait_for(work, 10)


STUBBORN = """\
import signal
import subprocess
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
time.sleep(60)
"""


def test_stop_ends_every_process_even_if_the_guard_hangs(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(own_server, "GUARD_STOP_SECONDS", 0.2)
    script = tmp_path / "server.py"
    script.write_text(STUBBORN)
    monkeypatch.chdir(tmp_path)
    spec = VLLMSpec(name=str(tiny), server_command=(sys.executable, str(script)))
    server = OwnServer(spec, Capacity(), tmp_path / "log")
    root = psutil.Process(server._process.pid)
    until = time.monotonic() + 60
    while len(below := root.children(recursive=True)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(below) == 2, (tmp_path / "log").read_text()
    os.kill(root.pid, signal.SIGSTOP)
    server.stop()
    assert psutil.wait_procs(below, 10)[1] == []
    assert not root.is_running()
