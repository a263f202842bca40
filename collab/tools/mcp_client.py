"""MCP servers as tools: each is started once per run and serves until the run ends."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from logging import NullHandler, getLogger
from typing import Any

from pydantic_core import to_json

from collab.distribution import install_command
from collab.errors import (
    CollabError,
    RecipeError,
    ToolUnavailable,
    UnknownName,
    format_error,
)
from collab.recipe.hosted import MCPServer
from collab.records import ToolSpec
from collab.tools.base import ERROR_PREFIX, MAX_CHARACTERS, Tool
from collab.trust.blocking import check_allowed
from collab.trust.commands import approved_command

MAX_TOOLS = 128
MAX_ANSWER_BYTES = 16_000_000
"""Limit of an answer of a server at an address. The SDK limits each event of a stream to 1 MiB."""
MAX_STDERR_BYTES, MAX_REASON_CHARACTERS = 2000, 300
"""Limits of what is shown of a failed server: the end of its output, and its error."""
MAX_NAME_CHARACTERS = 64
TOOL_NAME_PATTERN = re.compile(rf"[\w-]{{1,{MAX_NAME_CHARACTERS}}}", re.ASCII)
for _name in ("mcp", "client"):  # the SDK's names; otherwise its tracebacks are printed
    getLogger(_name).addHandler(NullHandler())


class ToolServers:
    """The MCP servers of a run. Each is opened once for all agents."""

    def __init__(self) -> None:
        self._servers: dict[str, ToolConnection] = {}

    async def tools(self, spec: MCPServer) -> list[Tool]:
        """Return the tools of a server that an agent may call, and start the server on first use.

        Raises:
            ToolUnavailable: the extra is missing, or the server does not start in time.
            RecipeError: the server lacks a tool in `only`, or has a tool that cannot be described
                to models.
            Untrusted: the server comes from a third-party recipe and is not approved.
        """
        key = spec.model_copy(update={"only": None}).model_dump_json()
        if key not in self._servers:
            self._servers[key] = connection = ToolConnection(spec)
            await connection.open()
        connection = self._servers[key]
        known = {tool.spec.name: tool for tool in connection.tools}
        for name in spec.only or ():
            if name not in known:
                raise UnknownName(f"tool of {spec}", name, known)
        return [tool for name, tool in known.items() if spec.only is None or name in spec.only]

    async def aclose(self) -> None:
        """Stop every server, even if stopping one of them fails."""
        async with AsyncExitStack() as stack:
            for connection in self._servers.values():
                stack.push_async_callback(connection.aclose)
        self._servers.clear()


class ToolConnection:
    """A connection to one server. The SDK must close a connection in the task that opened it, so
    each has its own task.
    """

    def __init__(self, spec: MCPServer) -> None:
        self.spec = spec
        self.tools: list[Tool] = []
        self._client: Any = None
        self._ready: asyncio.Future[None] | None = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the server and list its tools.

        Raises:
            ToolUnavailable: the extra is missing, or the server does not start in time.
            Untrusted: the server comes from a third-party recipe and is not approved.
        """
        check_allowed(self.spec.approval_key, f"{self.spec} is named by a third-party recipe")
        self._ready = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve(self._ready))
        await self._ready

    async def aclose(self) -> None:
        """Stop the server and cancel calls in progress."""
        self._closing.set()
        if self._task is not None:
            if self._ready is None or not self._ready.done():
                self._task.cancel()
            await asyncio.wait([self._task])

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
            try:
                async with asyncio.timeout(self.spec.seconds) as limit:
                    async with AsyncExitStack() as stack:
                        self._client = await stack.enter_async_context(_open_client(self.spec, log))
                        self.tools = [
                            _make_tool(self, tool) for tool in await _list_tools(self._client)
                        ]
                        limit.reschedule(None)
                        ready.set_result(None)
                        await self._closing.wait()
                        self._client = None
            except Exception as raised:
                self._client = None
                error: BaseException = raised
                while isinstance(error, BaseExceptionGroup):  # of the SDK's tasks
                    error = error.exceptions[0]
                if not ready.done():
                    is_known = isinstance(error, CollabError)
                    ready.set_exception(error if is_known else self._unavailable(error, log))

    def _unavailable(self, error: BaseException, log: Any) -> ToolUnavailable:
        reason = " ".join(format_error(error).split())[:MAX_REASON_CHARACTERS]
        if isinstance(error, TimeoutError):
            reason = f"not ready within {self.spec.seconds:g} s (its option seconds)"
        log.seek(max(0, log.seek(0, os.SEEK_END) - MAX_STDERR_BYTES))
        output = log.read(MAX_STDERR_BYTES).strip()
        return ToolUnavailable(
            f"{self.spec} does not start: {reason}" + (f"; it said:\n{output}" if output else "")
        )

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool, and return its answer as text.

        Raises:
            RuntimeError: the server has ended. Other exceptions of the SDK are passed on.
        """
        if self._client is None:
            raise RuntimeError(f"{self.spec} has ended")
        result = await self._client.call_tool(name, dict(arguments))
        text = "\n".join(map(_content_text, result.content))
        if not text and result.structured_content is not None:
            text = to_json(result.structured_content, fallback=repr).decode()
        if result.is_error:
            return f"{ERROR_PREFIX}{text[:MAX_CHARACTERS] or name + ' failed'}"
        return text[:MAX_CHARACTERS]


@asynccontextmanager
async def _open_client(spec: MCPServer, log: Any) -> AsyncIterator[Any]:
    try:
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp.client.streamable_http import streamable_http_client
    except ImportError:
        raise ToolUnavailable(f"{spec} needs the MCP SDK: {install_command('mcp')}") from None
    async with AsyncExitStack() as stack:
        if isinstance(spec.mcp, str):
            http = await stack.enter_async_context(_make_http_client(spec, log))
            transport = streamable_http_client(spec.mcp, http_client=http)
        else:
            variables = {name: _read_variable(name) for name in spec.environment}
            (command, *args), environment = stack.enter_context(
                approved_command(spec.mcp, variables)
            )
            server = StdioServerParameters(command=command, args=args, env=environment)
            transport = stdio_client(server, errlog=log)
        client: Any = await stack.enter_async_context(Client(transport, cache=None))
        client.session.validate_tool_result = _skip_validation
        yield client


async def _skip_validation(*_: Any) -> None:
    """Replace the SDK's check of a result against the server's own schema, which may never end."""


def _make_http_client(spec: MCPServer, log: Any) -> Any:
    """Make the HTTP client for a server, which limits each answer, and refuses compressed ones.

    It notes refusals of both sides in `log`, because the SDK hides them.
    """
    import httpx2

    from collab.models.http_client import size_limit_hook

    def refusal(reason: str) -> httpx2.StreamError:
        log.write(f"{reason}\n")
        return httpx2.StreamError("an answer was refused")

    async def log_error(answer: httpx2.Response) -> None:
        if answer.is_error:
            remedy = ": check the option `key`" if answer.status_code in (401, 403) else ""
            log.write(f"{answer.status_code} {answer.reason_phrase}{remedy}\n")

    key = {"Authorization": f"Bearer {_read_variable(spec.key)}"} if spec.key else {}
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **key},
        timeout=httpx2.Timeout(spec.seconds, read=None),
        event_hooks={"response": [size_limit_hook(httpx2, MAX_ANSWER_BYTES, refusal), log_error]},
    )


async def _list_tools(client: Any) -> list[Any]:
    """Return all pages of the server's tools."""
    tools: list[Any] = []
    cursor = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if len(tools) > MAX_TOOLS:
            raise RecipeError(f"the MCP server has more than {MAX_TOOLS} tools")
        if not cursor:
            return tools


def _make_tool(connection: ToolConnection, tool: Any) -> Tool:
    async def run(arguments: Mapping[str, Any]) -> str:
        return await connection.call(tool.name, arguments)

    if not TOOL_NAME_PATTERN.fullmatch(tool.name):
        raise RecipeError(
            f"{connection.spec} has a tool called {tool.name!r:.80}; tool names have up"
            f" to {MAX_NAME_CHARACTERS} letters, digits, - and _"
        )
    description = (tool.description or "")[:MAX_CHARACTERS]
    return Tool(
        ToolSpec(name=tool.name, description=description, parameters=tool.input_schema), run
    )


def _content_text(content: Any) -> str:
    if content.type == "text":
        return str(content.text)
    kind = getattr(content, "mime_type", None)
    return f"({content.type}{f', {kind}' if kind else ''}: not shown)"


def _read_variable(name: str | None) -> str:
    if name is None or name not in os.environ:
        raise RecipeError(f"the environment variable {name} is not set; an MCP server needs it")
    return os.environ[name]
