"""The ASGI application: its paths, and the answer to one request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from collab.recipe import Recipe
from collab.records import Episode, Problem
from collab.runtime.events import Event
from collab.serving.chat import ChatBody, ChatReply
from collab.serving.guard import Guard, read_body
from collab.serving.reading import TeamQuestion, read_body_as
from collab.serving.refusal import Refused, unavailable
from collab.serving.reply import PING_COMMENT, ResponseStream
from collab.serving.responses import ResponseBody, ResponseReply
from collab.serving.service import CLIENT_LEFT, Service, run_request
from collab.serving.settings import Settings
from collab.serving.team import ServedTeam
from collab.serving.teams import tool_names

_MCP_METHODS = ["GET", "POST", "DELETE"]
AnyBody = ChatBody | ResponseBody
AnyReply = ChatReply | ResponseReply


class Application:
    """An ASGI application that serves teams.

    The application opens the teams' models in its lifespan. A host that mounts it does not run that
    lifespan, so the host must enter `lifespan` in its own.
    """

    def __init__(self, recipes: Mapping[str, Recipe], settings: Settings) -> None:
        """Make the application.

        Raises:
            RecipeError: with MCP tools, two teams would be the same tool.
        """
        self.settings = settings
        if settings.mcp:
            tool_names(recipes)
        self.service = Service(recipes, settings)
        self._mcp: ASGIApp | None = None
        self._app = Starlette(
            routes=self._routes(),
            middleware=self._middleware(),
            exception_handlers={HTTPException: _http_error},
            lifespan=self.lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Context manager that opens the teams' models, and closes them at exit.

        Raises:
            CollabError: something is missing.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.service.open())
            if self.settings.mcp:
                from collab.serving.mcp_tools import http_application

                self._mcp = await stack.enter_async_context(http_application(self.service))
            yield

    def _routes(self) -> list[Route]:
        chat = partial(self._answer, kind=ChatBody, form=ChatReply)
        respond = partial(self._answer, kind=ResponseBody, form=ResponseReply)
        return [
            Route("/health", self._health),
            Route("/ready", self._ready),
            Route("/metrics", self._metrics),
            *([Route("/mcp", self._serve_mcp, methods=_MCP_METHODS)] if self.settings.mcp else []),
            Route("/v1/models", self._models),
            Route("/v1/models/{name}", self._model),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/responses", respond, methods=["POST"]),
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

    async def _serve_mcp(self, _: Request) -> Any:
        if self._mcp is None:
            raise unavailable("the server is starting")
        return self._mcp

    async def _answer(self, request: Request, kind: type[AnyBody], form: type[AnyReply]) -> Any:
        settings = self.settings
        self.service.check_ready()
        try:
            body = await read_body(request, settings.max_body, settings.client_seconds)
        except ClientDisconnect:
            return Response(status_code=499)
        question = read_body_as(kind, body).as_question(settings)
        team = self.service.team(question.model)
        problem = team.make_problem(question)
        question = replace(
            question, warnings=(*question.warnings, *team.ignored_warnings(question))
        )
        reply = form(team, question, with_agents=settings.details)
        traces = ("traceparent", "tracestate")
        carrier = {key: request.headers[key] for key in traces if key in request.headers}
        return AnswerApp(
            self.service, team, question, problem, reply, request.state.request, carrier
        )


def _model_card(team: ServedTeam) -> dict[str, Any]:
    return {"id": team.name, "object": "model", "created": team.opened_at, "owned_by": "collab"}


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    paths = "no such path; this server has /v1/models, /v1/chat/completions and /v1/responses"
    headers = error.headers or {}
    wrong = f"this path takes {headers['Allow']} only" if "Allow" in headers else paths
    response = Refused(error.status_code, "not_found", wrong).response()
    response.headers.update(headers)
    return response


_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclass
class AnswerApp:
    """An ASGI application for one request. The episode is canceled when its client leaves.

    A stream starts with its first event, so an earlier failure can still set the status.
    """

    service: Service
    team: ServedTeam
    question: TeamQuestion
    problem: Problem
    reply: AnyReply
    request: str
    """Id of the request."""
    carrier: Mapping[str, str]
    """Trace headers of the request."""
    _client: tuple[Scope, Receive, Send] = field(init=False)
    _send_lock: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _arrived: float = field(init=False)
    _last_sent: float = field(init=False)
    _opening: str = field(init=False)
    _has_begun: bool = field(init=False, default=False)
    _has_ended: bool = field(init=False, default=False)
    _has_sent: bool = field(init=False, default=False)
    """True if a part of the answer was sent. Pings and the opening do not count."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._client, self._opening = (scope, receive, send), "".join(self.reply.begin())
        self._arrived = self._last_sent = time.monotonic()
        try:
            await self.service.run_work(
                self.team.name, self._answer_request(), self._wait_for_disconnect()
            )
            if not self._has_begun:  # the client left, but a host's middleware needs an answer
                await self._send_whole(Response(status_code=499))
        except Refused as refused:
            await self._send_refusal(refused)

    async def _wait_for_disconnect(self) -> None:
        """Return once the client has disconnected."""
        while (await self._client[1]())["type"] != "http.disconnect":
            pass

    async def _answer_request(self) -> None:
        """Run the episode after its wait in the queue, and send the answer or a refusal."""
        try:
            async with self._keep_alive(), self.service.queue.place():
                episode = await self._run_episode()
            await self._send_end(episode)
        except Refused as refused:
            self.service.metrics.count_refusal(self.team.name, refused.reason or refused.kind)
            await self._send_refusal(refused)

    async def _run_episode(self) -> Episode:
        """Run the episode, and stream it if the request asks for that."""
        responses = ResponseStream()

        async def on_event(event: Event) -> None:
            for delta in responses.read_event(event) if self.question.stream else ():
                await self._send_events(self.reply.stream_delta(delta))

        whole = (self.service, self.team, self.question, self.problem, self.request)
        return await run_request(*whole, on_event=on_event, carrier=self.carrier)

    async def _send_end(self, episode: Episode) -> None:
        """Send the end of the answer, and drop the client if it does not receive it."""
        try:
            async with asyncio.timeout(self.service.settings.client_seconds):
                if self.question.stream:
                    await self._send_events(self.reply.end(episode))
                    await self._send_chunk("", more=False)
                else:
                    await self._send_whole(JSONResponse(self.reply.whole(episode)))
        except TimeoutError:
            self.service.metrics.count_refusal(self.team.name, CLIENT_LEFT)
        else:
            self.service.metrics.count_answer(self.team.name, episode)

    async def _send_events(self, events: Iterable[str]) -> None:
        """Send a part of a stream. The time to the first part includes the wait in the queue."""
        if text := "".join(events):
            await self._send_stream_text(text)
            if not self._has_sent:
                self._has_sent = True
                self.service.metrics.observe_first_chunk(
                    self.team.name, time.monotonic() - self._arrived
                )

    async def _send_refusal(self, refused: Refused) -> None:
        """Send the refusal, as a status or within the stream, if the client still reads."""
        if self._has_ended:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self.service.settings.client_seconds):
                if self._has_begun:
                    await self._send_chunk("".join(self.reply.fail(refused)), more=False)
                else:
                    await self._send_whole(refused.response())

    async def _send_stream_text(self, text: str) -> None:
        """Send a part of a stream, which begins with the reply's opening."""
        async with self._send_lock:
            if not self._has_begun:
                self._has_begun = True
                start = {"type": "http.response.start", "status": 200, "headers": _HEADERS}
                await self._client[2](start)
                text = self._opening + text
            await self._send_chunk(text, more=True)

    async def _send_whole(self, answer: Response) -> None:
        self._has_begun = self._has_ended = True
        await answer(*self._client)

    async def _send_chunk(self, text: str, *, more: bool) -> None:
        self._has_ended = not more
        message = {"type": "http.response.body", "body": text.encode(), "more_body": more}
        await self._client[2](message)
        self._last_sent = time.monotonic()

    @asynccontextmanager
    async def _keep_alive(self) -> AsyncIterator[None]:
        """Context manager that sends comments while a stream is silent."""
        pinging = asyncio.create_task(self._ping(self.service.settings.ping_seconds))
        try:
            yield
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)

    async def _ping(self, seconds: float) -> None:
        while self.question.stream:
            silent = time.monotonic() - self._last_sent
            if silent >= seconds:
                await self._send_stream_text(PING_COMMENT)
            else:
                await asyncio.sleep(seconds - silent)
