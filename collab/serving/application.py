"""The ASGI application: its paths and their handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from collab.models import Model
from collab.models.store import StoreProgress
from collab.recipe import Recipe
from collab.serving.answer import AnswerApp
from collab.serving.chat import ChatReply, read_chat
from collab.serving.guard import Guard, read_body
from collab.serving.reading import TeamQuestion
from collab.serving.refusal import Refused, unavailable
from collab.serving.reply import TeamReply
from collab.serving.responses import ResponseReply, read_response
from collab.serving.service import Service
from collab.serving.settings import Settings
from collab.serving.team import ServedTeam
from collab.serving.teams import tool_names

_MCP = ["GET", "POST", "DELETE"]
_Reader = Callable[[bytes, Settings], TeamQuestion]


class Application:
    """An ASGI application that answers for teams.

    It opens their models in its lifespan. A host that mounts it does not run that lifespan, so the
    host must enter `lifespan` in its own.
    """

    def __init__(
        self,
        recipes: Mapping[str, Recipe],
        settings: Settings | None = None,
        *,
        models: Mapping[str, Mapping[str, Model]] | None = None,
        loading: StoreProgress | None = None,
    ) -> None:
        """Make the application; `models` replace the recipes', by the team's name and the agent's.

        Raises:
            RecipeError: with MCP tools, two teams would be the same tool.
        """
        self.settings = settings or Settings()
        if self.settings.mcp:
            tool_names(recipes)
        self.service = Service(recipes, self.settings, models=models, loading=loading)
        self._mcp: ASGIApp | None = None
        self._app = Starlette(
            routes=self._routes(),
            middleware=self._middleware(),
            exception_handlers={Refused: _refused, HTTPException: _not_found},
            lifespan=self.lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """While entered, the teams' models are open.

        Raises:
            CollabError: something is missing.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.service.open())
            if self.settings.mcp:
                from collab.serving.mcp_tools import over_http

                self._mcp = await stack.enter_async_context(over_http(self.service))
            yield

    def _routes(self) -> list[Route]:
        return [
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/metrics", self._metrics),
            *([Route("/mcp", self._speak_mcp, methods=_MCP)] if self.settings.mcp else []),
            Route("/v1/models", self._models),
            Route("/v1/models/{name}", self._model),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/responses", self._respond, methods=["POST"]),
            Route("/v1/responses/{name}", self._stored),
        ]

    def _middleware(self) -> list[Middleware]:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(self.settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-request-id"],
        )
        guard = Middleware(Guard, self.settings)
        return [cors, guard] if self.settings.origins else [guard]

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: Request) -> Response:
        self.service.check_ready()
        return JSONResponse({"status": "ready"})

    async def _metrics(self, _: Request) -> Response:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(self.service.metrics.text(), media_type=kind)

    async def _models(self, _: Request) -> Response:
        self.service.check_ready()
        data = [_model_card(team) for team in self.service.teams.values()]
        return JSONResponse({"object": "list", "data": data})

    async def _model(self, request: Request) -> Response:
        return JSONResponse(_model_card(self.service.team(request.path_params["name"])))

    async def _chat(self, request: Request) -> Any:
        return await self._answer(request, read_chat, ChatReply)

    async def _respond(self, request: Request) -> Any:
        return await self._answer(request, read_response, ResponseReply)

    async def _speak_mcp(self, _: Request) -> Any:
        if self._mcp is None:
            raise unavailable("the server is starting")
        return self._mcp

    async def _stored(self, _: Request) -> Response:
        raise Refused(404, "not_found", "the server stores no responses; keep them on the client")

    async def _answer(self, request: Request, reader: _Reader, form: type[TeamReply]) -> Any:
        settings = self.settings
        self.service.check_ready()
        try:
            body = await read_body(request, settings.max_body, settings.client_seconds)
        except ClientDisconnect:
            return Response(status_code=499)
        question = reader(body, settings)
        team = self.service.team(question.model)
        problem = team.problem(question)
        reply = form(team, question, all_of_it=settings.details)
        traces = ("traceparent", "tracestate")
        carrier = {key: request.headers[key] for key in traces if key in request.headers}
        return AnswerApp(
            self.service, team, question, problem, reply, request.state.request, carrier
        )


def _model_card(team: ServedTeam) -> dict[str, Any]:
    return {"id": team.name, "object": "model", "created": team.since, "owned_by": "collab"}


async def _refused(_: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    return refused.response()


async def _not_found(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    wrong = "no such path" if error.status_code == 404 else "method not allowed"
    response = Refused(error.status_code, "not_found", wrong).response()
    response.headers.update(error.headers or {})
    return response
