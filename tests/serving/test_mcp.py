"""Teams as tools, called by MCP's own client over HTTP and over stdio."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from support.served import DUO, SOLO, Server, Talker, answered_by, recipe

from collab.errors import RecipeError
from collab.runtime.fields import fields_of
from collab.serving.application import Application
from collab.serving.mcp_tools import make_server
from collab.serving.service import Service
from collab.serving.settings import Settings

if TYPE_CHECKING:
    from mcp import ClientSession  # slow import; workers without these tests skip it


@asynccontextmanager
async def over_http(server: Server) -> AsyncIterator[ClientSession]:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with (
        streamable_http_client(f"{server.url}/mcp") as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        yield session


def test_each_team_is_a_tool_and_answers() -> None:
    progress_messages: list[str] = []

    async def record(progress: float, total: float | None, message: str | None) -> None:
        progress_messages.append(f"{progress:g} {message}")

    async def ask() -> Any:
        async with over_http(server) as session:
            tools = (await session.list_tools()).tools
            given = {"prompt": "Hello."}
            return tools, await session.call_tool("duo", given, progress_callback=record)

    with Server(recipe(DUO), recipe(SOLO), mcp=True) as server:
        tools, result = asyncio.run(ask())
    assert [tool.name for tool in tools] == ["duo", "solo"]
    assert tools[0].input_schema["required"] == ["prompt"]
    answer = "aux says: Help with: Hello.\n\nmain says: Answer: Hello."
    assert result.content[0].text == result.structured_content["answer"] == answer
    assert [agent["name"] for agent in result.structured_content["agents"]] == ["aux", "main"]
    assert progress_messages == ["1 aux has answered", "2 main has answered"]


def test_the_agents_responses_may_be_left_out() -> None:
    async def ask() -> Any:
        async with over_http(server) as session:
            return await session.call_tool("duo", {"prompt": "Hello."})

    with Server(recipe(DUO), mcp=True, details=False) as server:
        result = asyncio.run(ask())
    answer = "aux says: Help with: Hello.\n\nmain says: Answer: Hello."
    assert result.structured_content == {"answer": answer, "agents": []}


def test_arguments_are_the_fields_that_templates_use() -> None:
    team = {**SOLO, "agents": {"one": {"prompt": "{{ task.one }} {{ task.two }}"}}}

    async def ask() -> Any:
        async with over_http(server) as session:
            [tool] = (await session.list_tools()).tools
            return tool, await session.call_tool("solo", {"one": "1", "two": "2"})

    with Server(recipe(team), mcp=True) as server:
        tool, result = asyncio.run(ask())
    assert tool.input_schema["additionalProperties"] is False
    assert tool.input_schema["required"] == [*tool.input_schema["properties"]] == ["one", "two"]
    assert result.structured_content["answer"] == "one says: 1 2"


def test_a_team_that_reads_the_whole_task_needs_a_prompt() -> None:
    prompt = "{{ task.style }} {% for name, text in task.items() %}{{ text }}{% endfor %}"
    fields = fields_of(recipe({**SOLO, "agents": {"one": {"prompt": prompt}}}))
    assert fields.is_text_used


@pytest.mark.parametrize(
    ("name", "given", "wrong"),
    [
        ("solo", {"prompt": " "}, "'prompt' has no text"),
        ("solo", {"prompt": {"a": 1}}, "must be a string"),
        ("solo", {}, "'prompt' is missing"),
        ("solo", {"prompt": "x", "tone": "dry"}, "no field 'tone'; its fields beside"),
        ("solo", {"prompt": "x", "conversation": "y"}, "is for chats"),
        ("two", {"prompt": "x"}, "the argument 'language' is missing"),
        ("../solo", {"prompt": "x"}, "no such tool; this server has: solo, two"),
        ("solo", {"prompt": "x"}, "the episode failed: ModelError"),
    ],
)
def test_failures_are_tool_errors(name: str, given: Any, wrong: str) -> None:
    async def ask() -> Any:
        async with over_http(server) as session:
            return await session.call_tool(name, given)

    agents = {"one": {"prompt": "{{ task.prompt }} {{ task.language }}"}}
    two = recipe({**SOLO, "name": "two", "agents": agents})
    with Server(recipe(SOLO), two, mcp=True, model=Talker(fails="ModelError")) as server:
        result = asyncio.run(ask())
    assert result.is_error
    assert wrong in result.content[0].text
    assert "secret" not in result.content[0].text


def test_calls_without_an_answer_are_counted_as_failures() -> None:
    async def ask() -> None:
        async with over_http(server) as session:
            for given in ({"prompt": "x"}, {"prompt": " "}):
                assert (await session.call_tool("solo", given)).is_error

    with Server(recipe(SOLO), mcp=True, model=Talker(fails="ModelError")) as server:
        asyncio.run(ask())
        text = httpx.get(f"{server.url}/metrics").text
    failure = 'collab:request_failure_total{team="solo",type="%s"} 1.0'
    assert failure % "ModelError" in text
    assert failure % "invalid_request_error" in text
    assert "request_success_total{" not in text


def test_call_is_canceled_on_shutdown() -> None:
    from mcp import Client

    talker = Talker(holding=True)
    service = Service({"solo": recipe(SOLO)}, Settings())

    async def ask() -> Any:
        async with answered_by(talker), service.open(), Client(make_server(service)) as client:
            calling = asyncio.create_task(client.call_tool("solo", {"prompt": "x"}))
            while not talker.under_way:
                await asyncio.sleep(0.005)
            service.shut_down.set()
            return await asyncio.wait_for(calling, 5)

    result = asyncio.run(ask())
    assert result.is_error
    assert "shutting down" in result.content[0].text
    assert (talker.cancelled, service.queue.is_idle) == (1, True)
    assert (
        'request_failure_total{team="solo",type="shut down"} 1.0' in service.metrics.text().decode()
    )


def test_a_call_is_cancelled_when_its_client_leaves() -> None:
    from mcp import Client

    talker = Talker(holding=True)
    service = Service({"solo": recipe(SOLO)}, Settings())

    async def leave() -> None:
        async with answered_by(talker), service.open(), Client(make_server(service)) as client:
            calling = asyncio.create_task(client.call_tool("solo", {"prompt": "x"}))
            while not talker.under_way:
                await asyncio.sleep(0.005)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)

    asyncio.run(asyncio.wait_for(leave(), 10))
    assert (talker.cancelled, service.queue.is_idle) == (1, True)
    metrics = service.metrics.text().decode()
    assert 'request_failure_total{team="solo",type="client left"} 1.0' in metrics


def test_two_teams_with_the_same_tool_name_are_refused() -> None:
    recipes = {"a:b": recipe(DUO), "a_b": recipe(SOLO)}
    Application(recipes, Settings())
    with pytest.raises(RecipeError, match="'a:b' and 'a_b' would have the same tool name 'a_b'"):
        Application(recipes, Settings(mcp=True))


def test_mcp_is_protected_by_the_key_and_off_by_default() -> None:
    with Server(recipe(SOLO), mcp=True, keys=("a-key",)) as server:
        assert httpx.post(f"{server.url}/mcp", json={}).status_code == 401
    with Server(recipe(SOLO)) as server:
        assert httpx.post(f"{server.url}/mcp", json={}).status_code == 404


def test_mcp_is_served_on_stdin_and_stdout(tmp_path: Path) -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

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
