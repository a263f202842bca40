"""A server of teams on a real socket, in a thread, and a controllable model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import patch

import httpx

from collab.errors import ModelError
from collab.models import Model, Progress, Request
from collab.models.base import Batching, Capabilities
from collab.models.open import ModelPool
from collab.recipe import Recipe
from collab.records import Action, Usage, failure_of
from collab.serving.application import Application
from collab.serving.server import bind, serve
from collab.serving.service import EpisodeQueue
from collab.serving.settings import Settings

if TYPE_CHECKING:
    import openai  # slow import; workers without these tests skip it

DUO: dict[str, Any] = {
    "name": "duo",
    "agents": {
        "aux": {"role": "You help.", "prompt": "Help with: {{ task.prompt }}"},
        "main": {"role": "You answer.", "prompt": "Answer: {{ task.prompt }}"},
    },
}
SOLO: dict[str, Any] = {
    "name": "solo",
    "protocol": "single",
    "agents": {"one": {"prompt": "{{ task.prompt }}"}},
}
AUX = "aux says: Help with: What is two and two?"
MAIN = "main says: Answer: What is two and two?"
"""The answers of `Talker` for the two agents of DUO to "What is two and two?"."""


CHAT = "/v1/chat/completions"


def error(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    """The status, and the code and parameter of an error."""
    body = answer.json()["error"]
    assert set(body) == {"message", "type", "param", "code"}
    return answer.status_code, body["code"], body["param"]


def recipe(team: dict[str, Any], **top: Any) -> Recipe:
    return Recipe.model_validate({"team": team, "model": "echo", **top})


class Talker(Model):
    """Answers with its prefix, `NAME says: ` and its prompt, word by word; waits on request.

    `holding` answers wait until `go` is called. `cancelled` counts canceled calls, and `requests`
    records all requests.
    """

    batching: Batching = "continuous"
    capabilities = Capabilities(adapters=True, continues=True)
    name = "talker"

    def __init__(
        self, *, after: int = 0, holding: bool = False, fails: str = "", fills: int = 0
    ) -> None:
        """Hold after `after` words; fail with an error of type `fails`; add `fills` letters."""
        self.requests: list[Request] = []
        self.cancelled = 0
        self.under_way = 0
        self._after, self._fails, self._fills = after, fails, fills
        self._open = threading.Event()
        if not holding:
            self._open.set()

    def go(self) -> None:
        self._open.set()

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        self.requests += requests
        self.under_way += 1
        try:
            return [await self._answer(request, progress) for request in requests]
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1

    async def _answer(self, request: Request, progress: Progress | None) -> Action:
        if self._fails:
            error = failure_of(ModelError("secret /etc/passwd: broken"))
            failure = error.model_copy(update={"type": self._fails})
            return Action(text="", finish_reason="failed", failure=failure)
        text = f"{request.call.agent} says: {request.messages[-1].content}"
        words = f"{request.prefix}{text}".split(" ")
        most = request.sampling.max_new_tokens
        for number, word in enumerate(words[:most]):
            if number >= self._after:
                await self._held()
            if progress:
                progress(request, number + 1, f" {word}" if number else word)
        return Action(
            text=" ".join(words[:most]) + "x" * self._fills,
            finish_reason="length" if len(words) > most else "stop",
            model=self.name,
            adapter=request.adapter,
            usage=Usage(prompt_tokens=7, new_tokens=min(len(words), most)),
        )

    async def _held(self) -> None:
        while not self._open.is_set():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def answered_by(model: Model) -> AsyncIterator[None]:
    """Let `model` answer for every agent of the teams that are opened here."""
    with patch.object(ModelPool, "open", lambda *_: model):
        yield


class Server:
    """Serves recipes within its `with` block; `model` answers for every agent."""

    def __init__(
        self, *recipes: Recipe, model: Any = None, drain: float = 0.5, **settings: Any
    ) -> None:
        self.model = model or Talker()
        self._recipes = {recipe.team.name: recipe for recipe in recipes}
        self._settings = Settings(**{"ping_seconds": 0.2, **settings})
        self._drain = drain
        self._listener = bind("127.0.0.1", 0)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.app: Application | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def queue(self) -> EpisodeQueue:
        assert self.app
        return self.app.service.queue

    def client(self, key: str = "none") -> openai.OpenAI:
        """OpenAI's own client for this server."""
        import openai

        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)

    def ask(self, text: str = "Hello.", **more: Any) -> httpx.Response:
        """Request a chat completion; `more` adds keys to the request."""
        body = {"model": "solo", "messages": [{"role": "user", "content": text}], **more}
        return httpx.post(f"{self.url}{CHAT}", json=body, timeout=20)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.app
        self.app.service.drain()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self.app = Application(self._recipes, self._settings)
        with self._listener:
            async with answered_by(self.model), self.app.lifespan():
                self._ready.set()
                await serve(self.app, self.app.service, self._listener, self._drain)
