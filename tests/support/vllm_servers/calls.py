"""An engine for vLLM servers, and its requests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.vllm_servers.server import VLLMServer, save_adapter

from collab.models import Call, Request
from collab.models.open import open_model
from collab.models.vllm.engine import VLLMEngine
from collab.recipe.model import VLLMSpec
from collab.records import Action, Sampling


@asynccontextmanager
async def engine_at(tiny: Path, *servers: VLLMServer, **options: Any) -> AsyncIterator[VLLMEngine]:
    """Open an engine; its requests have seeds unless `options` say otherwise."""
    urls = tuple(server.url for server in servers)
    engine = open_model(VLLMSpec(name=str(tiny), servers=urls, **{"seeds": True, **options}))
    assert isinstance(engine, VLLMEngine)
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


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.02)
