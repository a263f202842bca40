"""Running requests whose engine is closed."""

import asyncio
from pathlib import Path

import pytest
from support.loops import in_loop
from support.vllm_servers.calls import engine_at, request, until
from support.vllm_servers.server import VLLMServer

from collab.errors import ModelUnavailable


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
