"""Tools that agents may call before they answer: functions, the sandbox, MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collab.errors import RecipeError, UnknownName
from collab.recipe.hosted import MCPServer
from collab.recipe.team import TeamSpec
from collab.sandbox import Sandbox
from collab.tools.base import Tool, function_tool, python_tool
from collab.tools.mcp_client import ToolServers

Toolboxes = Mapping[str, Mapping[str, Tool]]
"""Tools of each agent, by name."""


async def open_tools(
    team: TeamSpec, sandbox: Sandbox, servers: ToolServers | None = None
) -> Toolboxes:
    """Open every agent's tools, and return them. Without `servers`, skip MCP servers.

    Raises:
        RecipeError: a tool is unknown, is not a valid function, or shares its name with another.
        ToolUnavailable: an MCP server does not start, or its extra is missing.
    """
    return {
        name: await _toolbox(name, spec.tools, sandbox, servers)
        for name, spec in team.agents.items()
    }


def disabled_tools(tools: Toolboxes) -> Toolboxes:
    """Return copies of the tools for inspection. A call of a copy runs nothing and returns an empty
    answer."""

    async def nothing(arguments: Mapping[str, Any]) -> str:  # noqa: ARG001
        return ""

    return {
        agent: {name: Tool(tool.spec, nothing) for name, tool in each.items()}
        for agent, each in tools.items()
    }


async def _toolbox(
    agent: str,
    entries: Sequence[str | MCPServer],
    sandbox: Sandbox,
    servers: ToolServers | None,
) -> Mapping[str, Tool]:
    tools: dict[str, Tool] = {}
    for entry in entries:
        if isinstance(entry, str):
            added = [_tool(entry, sandbox)]
        else:
            added = await servers.tools(entry) if servers else []
        for tool in added:
            if tool.spec.name in tools:
                raise RecipeError(
                    f"agent '{agent}' has two tools called '{tool.spec.name}'; leave one out (for"
                    " an MCP server, with its option `only`)"
                )
            tools[tool.spec.name] = tool
    return tools


def _tool(name: str, sandbox: Sandbox) -> Tool:
    if name == "python":
        return python_tool(sandbox)
    if ":" not in name:
        raise UnknownName("tool", name, ["python", "file.py:function", "{mcp: [COMMAND, ...]}"])
    return function_tool(name)


__all__ = ["Tool", "ToolServers", "Toolboxes", "disabled_tools", "open_tools"]
