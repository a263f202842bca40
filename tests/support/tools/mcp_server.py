"""An MCP server on stdio, made with the SDK; it records each start in `starts`."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

server = MCPServer("numbers")


@server.tool()
def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


@server.tool()
def fails() -> str:
    """Always fails."""
    raise RuntimeError("nothing there")


@server.tool()
def talks() -> str:
    """Says a lot."""
    return "x" * 500_000


@server.tool()
def puzzles() -> Annotated[str, Field(json_schema_extra={"pattern": "^(a+)+$"})]:
    """Text that takes Python years to compare with its own schema."""
    return "a" * 40 + "!"


@server.tool()
async def sleeps() -> str:
    """Takes long."""
    await asyncio.sleep(60)
    return "awake"


@server.tool()
def environment(name: str) -> str:
    """An environment variable."""
    return os.environ.get(name, "not set")


@server.tool()
def dies() -> str:
    """Ends the server."""
    os._exit(1)


if __name__ == "__main__":
    with Path("starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    if "broken" in sys.argv:
        sys.exit("no such database")
    if "misnamed" in sys.argv:
        server.add_tool(double, name="twice a number")
    server.run("stdio")
