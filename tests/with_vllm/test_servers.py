"""Real vLLM servers, two at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
from support.vllm_servers.processes import MODEL, VLLMServerProcess
from support.vllm_servers.questions import ask, request

from collab.models.conformance import conform
from collab.models.vllm.backend import Capacity
from collab.models.vllm.engine import VLLMEngine
from collab.models.vllm.own_server import OwnServer
from collab.recipe.model import VLLMModel
from collab.runs.layout import ADAPTER_CONFIG, ADAPTER_WEIGHTS


def engine_at(servers: list[VLLMServerProcess]) -> VLLMEngine:
    urls = tuple(server.url for server in servers)
    return VLLMEngine(VLLMModel(name=MODEL, servers=urls, seeds=True))


def copy(source: Path, target: Path) -> None:
    target.mkdir()
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        (target / name).write_bytes((source / name).read_bytes())


def loaded(server: VLLMServerProcess, adapter: str) -> list[str]:
    """The versions of an adapter that a server holds."""
    cards = httpx.get(f"{server.url}/v1/models").json()["data"]
    return [card["id"] for card in cards if card["parent"] and card["id"].startswith(f"{adapter}@")]


def test_two_servers_share_the_load_and_every_version(
    servers: list[VLLMServerProcess], adapters: dict[str, Path]
) -> None:
    engine = engine_at(servers)
    try:
        answers = []
        for folder in [*adapters.values()]:
            asyncio.run(
                engine.publish({"one": lambda target, source=folder: copy(source, target)}, 0)
            )
            held = [loaded(server, "one") for server in servers]
            assert held[0] == held[1], "every server holds the same version"
            assert len(held[0]) == 1, "and no older one"
            batch = [request("Name a colour.", adapter="one", temperature=0.0)] * 4
            texts = {action.text for action in ask(engine, batch)}
            assert len(texts) == 1, "both servers answer alike"
            answers += texts
        assert answers[0] != answers[1]
    finally:
        asyncio.run(engine.aclose())
    assert not any(loaded(server, "one") for server in servers)


def test_a_server_of_a_rank_starts_answers_and_tells_its_load(
    adapters: dict[str, Path], tmp_path: Path
) -> None:
    spec = VLLMModel(name=MODEL, dtype="float32", context=256, kv_cache_gb=0.2)
    own = OwnServer(spec, Capacity(adapters=2, rank=16), tmp_path / "log")
    try:
        engine = VLLMEngine(VLLMModel(name=MODEL, servers=(own.wait(),)))
        folder = str(next(iter(adapters.values())))

        async def main() -> Any:
            asked = [request("Name a colour.", adapter=folder), request("Name a colour.")]
            try:
                return await engine.generate(asked), await engine.report()
            finally:
                await engine.aclose()

        actions, report = asyncio.run(main())
    finally:
        own.stop()
    assert [action.failure for action in actions] == [None, None]
    assert report.metrics["1/preempted"] == 0
    assert "1/waiting" in report.metrics


def test_they_conform(servers: list[VLLMServerProcess], adapters: dict[str, Path]) -> None:
    async def sandbox() -> list[Any]:
        folders = [str(folder) for folder in adapters.values()]
        return [verdict async for verdict in conform(engine_at(servers), folders)]

    assert {v.check: v.why for v in asyncio.run(sandbox()) if v.outcome != "ok"} == {}
