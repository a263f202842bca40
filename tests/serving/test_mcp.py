"""Teams as tools, called by MCP's own client over HTTP and over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from support.served import DUO, SOLO, Server, Talker, recipe


@asynccontextmanager
async def over_http(server: Server) -> AsyncIterator[ClientSession]:
    async with (
        streamable_http_client(f"{server.url}/mcp") as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        yield session


def test_each_team_is_a_tool_and_answers() -> None:
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(f"{progress:g} {message}")

    async def ask() -> Any:
        async with over_http(server) as session:
            tools = (await session.list_tools()).tools
            given = {"prompt": "Hello."}
            return tools, await session.call_tool("duo", given, progress_callback=hear)

    with Server(recipe(DUO), recipe(SOLO), mcp=True) as server:
        tools, result = asyncio.run(ask())
    assert [tool.name for tool in tools] == ["duo", "solo"]
    assert tools[0].input_schema["required"] == ["prompt"]
    answer = "aux says: Help with: Hello.\n\nmain says: Answer: Hello.\n"
    assert result.content[0].text == result.structured_content["answer"] == answer
    assert [agent["name"] for agent in result.structured_content["agents"]] == ["aux", "main"]
    assert told == ["1 aux has answered", "2 main has answered"]


@pytest.mark.parametrize(
    ("name", "given", "wrong"),
    [
        ("solo", {"prompt": " "}, "'prompt' has no text"),
        ("solo", {"prompt": {"a": 1}}, "no text, number"),
        ("solo", {}, "'prompt' has no text"),
        ("../solo", {"prompt": "x"}, "no such tool"),
        ("solo", {"prompt": "x"}, "the episode failed: ModelError"),
    ],
)
def test_what_is_wrong_is_an_error_of_the_tool(name: str, given: Any, wrong: str) -> None:
    async def ask() -> Any:
        async with over_http(server) as session:
            return await session.call_tool(name, given)

    with Server(recipe(SOLO), mcp=True, model=Talker(fails="ModelError")) as server:
        result = asyncio.run(ask())
    assert result.is_error
    assert wrong in result.content[0].text
    assert "secret" not in result.content[0].text


def test_the_key_guards_it_and_it_is_there_only_if_wanted() -> None:
    with Server(recipe(SOLO), mcp=True, keys=("a-key",)) as server:
        assert httpx.post(f"{server.url}/mcp", json={}).status_code == 401
    with Server(recipe(SOLO)) as server:
        assert httpx.post(f"{server.url}/mcp", json={}).status_code == 404


def test_it_is_served_on_stdin_and_stdout(tmp_path: Path) -> None:
    arguments = ["-m", "collab", "serve", "tldr", "--model", "echo", "--mcp", "stdio"]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env=dict(os.environ), cwd=str(tmp_path)
    )

    async def ask() -> Any:
        with (tmp_path / "stderr").open("w") as errors:
            async with (
                stdio_client(server, errors) as (incoming, outgoing),
                ClientSession(incoming, outgoing) as session,
            ):
                await session.initialize()
                return await session.call_tool("tldr", {"prompt": "A long post."})

    result = asyncio.run(ask())
    assert result.structured_content["answer"].startswith("A long post.")
