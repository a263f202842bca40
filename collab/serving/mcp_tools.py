"""Teams as tools of an MCP server: one tool per team, with its fields as arguments."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from collab import distribution
from collab.records import Episode, Problem
from collab.runtime.events import AgentActed, Event
from collab.runtime.fields import CONVERSATION
from collab.serving.reading import FieldValue, TeamQuestion
from collab.serving.refusal import Refused, invalid
from collab.serving.service import OnServedEvent, Service, run_request
from collab.serving.team import ServedTeam
from collab.serving.teams import tool_names

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp

_ARGUMENTS: TypeAdapter[dict[str, FieldValue]] = TypeAdapter(dict[str, FieldValue])

_STRING_SCHEMA = {"type": "string"}
_AGENT_SCHEMA = {
    "type": "object",
    "properties": {"name": _STRING_SCHEMA, "turn": {"type": "integer"}, "text": _STRING_SCHEMA},
}
_OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {"answer": _STRING_SCHEMA, "agents": {"type": "array", "items": _AGENT_SCHEMA}},
    "required": ["answer", "agents"],
}


def make_server(service: Service) -> Server[Any]:
    """Return an MCP server with a tool for each team of a service.

    Raises:
        RecipeError: two teams would be the same tool.
    """
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=name,
                    description=team.recipe.team.description or f"Ask the team {team.name}.",
                    input_schema=_input_schema(team),
                    output_schema=_OUTPUT_SCHEMA,
                )
                for name, team in _teams_by_tool(service).items()
            ]
        )

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        answered = 0

        async def report_answer(event: Event) -> None:
            nonlocal answered
            if isinstance(event, AgentActed):
                answered += 1
                note = f"{event.decision.agent} has answered"
                await context.session.report_progress(answered, None, note)

        try:
            service.check_ready()
            teams = _teams_by_tool(service)
            if (team := teams.get(params.name)) is None:
                raise invalid(f"no such tool; this server has: {', '.join(teams)}")
            running = _run_call(service, team, params.arguments or {}, report_answer)
            episode = await service.run_work(team.name, running)
            assert episode is not None, "a client that disconnects cancels the call"
        except Refused as refused:
            content = [types.TextContent(type="text", text=refused.message)]
            return types.CallToolResult(content=list(content), is_error=True)
        output = _tool_output(episode, with_agents=service.settings.details)
        answer = types.TextContent(type="text", text=output["answer"])
        return types.CallToolResult(content=[answer], structured_content=output)

    return Server(
        "collab", version=distribution.version(), on_list_tools=list_tools, on_call_tool=call_tool
    )


async def serve_stdio(service: Service) -> None:
    """Serve the teams as MCP tools on stdin and stdout until they close."""
    from mcp.server.stdio import stdio_server

    server = make_server(service)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def http_application(service: Service) -> AsyncIterator[ASGIApp]:
    """Context manager that yields an ASGI application for MCP. Check access before it."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(
        make_server(service), stateless=True, max_request_body_size=service.settings.max_body
    )
    async with manager.run():
        yield manager.handle_request


async def _run_call(
    service: Service, team: ServedTeam, arguments: dict[str, Any], on_event: OnServedEvent
) -> Episode:
    """Run the episode of a call, and count it.

    Raises:
        Refused: the arguments are invalid, the queue is full, or the episode failed.
    """
    try:
        problem, question = _read_arguments(team, arguments)
        async with service.queue.place():
            episode = await run_request(
                service, team, question, problem, uuid.uuid4().hex, on_event=on_event
            )
    except Refused as refused:
        service.metrics.count_refusal(team.name, refused.reason or refused.kind)
        raise
    service.metrics.count_answer(team.name, episode)
    return episode


def _read_arguments(team: ServedTeam, arguments: dict[str, Any]) -> tuple[Problem, TeamQuestion]:
    try:
        fields = _ARGUMENTS.validate_python(arguments, strict=True)
    except ValidationError:
        raise invalid("an argument must be a string, a number or a list of strings") from None
    for name in _input_schema(team)["required"]:
        if name not in fields:
            raise invalid(f"the argument '{name}' is missing")
    text = fields.pop(team.fields.text, "")
    if team.fields.is_text_used and not (isinstance(text, str) and text.strip()):
        raise invalid(f"the argument '{team.fields.text}' has no text")
    if CONVERSATION in fields:
        raise invalid(f"the argument '{CONVERSATION}' is for chats; leave it out")
    question = TeamQuestion(model=team.name, text=str(text), fields=fields)
    return team.make_problem(question), question


def _teams_by_tool(service: Service) -> dict[str, ServedTeam]:
    return {tool: service.teams[name] for tool, name in tool_names(service.teams).items()}


def _input_schema(team: ServedTeam) -> dict[str, Any]:
    text = [team.fields.text] if team.fields.is_text_used else []
    known, needed = team.known_fields, [*text, *team.fields.needed]
    unlisted = (CONVERSATION, team.fields.text)
    names = [*text, *(n for n in known or team.fields.known if n not in unlisted)]
    return {
        "type": "object",
        "properties": dict.fromkeys(names, _STRING_SCHEMA),
        "additionalProperties": known is None,
        "required": [name for name in dict.fromkeys(needed) if name != CONVERSATION],
    }


def _tool_output(episode: Episode, *, with_agents: bool) -> dict[str, Any]:
    agents = [
        {"name": decision.agent, "turn": turn.index, "text": decision.action.text}
        for turn in episode.turns
        for decision in turn.decisions
        if with_agents
    ]
    return {"answer": episode.answer, "agents": agents}
