"""Any server that speaks OpenAI's chat completions: vLLM, llama.cpp, Ollama, hosted ones."""

from __future__ import annotations

import asyncio
from typing import Any

from collab.errors import ModelError, ModelUnavailable
from collab.loopback import leads_to_loopback
from collab.models.base import Capabilities, Progress, Request
from collab.models.hosted.engine import HostedEngine, Reply, usual_url
from collab.models.hosted.errors import error_of
from collab.models.hosted.openai_body import Dialect
from collab.models.hosted.retry import Transient
from collab.models.hosted.spending import Spending
from collab.models.keys import read_key, unkeyed, without_key
from collab.recipe.hosted import OpenAIModel
from collab.records import FinishReason

URL = "https://api.openai.com/v1"
URL_VARIABLE = "OPENAI_BASE_URL"
LISTING_SECONDS = 5.0
MOST_LISTED = 10


class OpenAIEngine(HostedEngine):
    """A server's model, for frozen agents. `seed` is sent; servers differ in what they make of it.

    With `tokens` an action carries its token ids and log-probabilities, the latter as the server
    defines them.
    """

    hottest = 2.0
    finished: dict[str, FinishReason] = {"stop": "stop", "length": "length"}
    calls_tools = "tool_calls"

    def __init__(self, spec: OpenAIModel) -> None:
        """Raises RecipeError for a bad address, ModelUnavailable where OpenAI has no key."""
        self._url = spec.base_url or usual_url(URL_VARIABLE, URL)
        key = read_key(spec.key)
        if not key and self._url == URL:
            raise ModelUnavailable(f"model {spec.name!r} needs a key: set {spec.key}")
        spending = Spending(spec.input_price, spec.output_price, spec.cost_limit)
        super().__init__("openai", spec, self._url, spending, key)
        self.spec = spec
        self.capabilities = Capabilities(tokens=spec.tokens)
        self._dialect = Dialect(spec)

    def _connect(self) -> Any:
        from httpx import AsyncClient, Limits

        # Time limits are ours, and so is the number of connections. A proxy that the environment
        # names cannot reach this machine's own addresses.
        return AsyncClient(
            base_url=self._url,
            headers={"authorization": f"Bearer {self._key}"} if self._key else {},
            limits=Limits(max_connections=None),
            timeout=None,
            trust_env=not leads_to_loopback(self._url),
        )

    async def _disconnect(self) -> None:
        await self._client.aclose()

    async def _answer(self, request: Request, reply: Reply, progress: Progress | None) -> None:
        from httpx import ConnectError, HTTPError

        try:
            await self._converse(request, reply, progress)
        except ConnectError as error:
            told = f"{self.peer} cannot be reached ({self._told(error)}); is the server running?"
            raise Transient(ModelUnavailable(told)) from None
        except (HTTPError, OSError) as error:
            told = f"{self.peer} cut the connection: {self._told(error)}"
            raise Transient(ModelUnavailable(told)) from None
        except ValueError as error:
            told = f"{self.peer} sent no chat completion: {self._told(error)}"
            raise Transient(ModelError(told)) from None

    async def _converse(self, request: Request, reply: Reply, progress: Progress | None) -> None:
        """Ask again without each field that the server refuses, until it answers."""
        from collab.models.hosted.openai_stream import Rejected, read

        while True:
            body = self._dialect.body(request)
            try:
                await read(self._client, body, reply, request, progress, key=self._key)
            except Rejected as rejected:
                said = rejected.rejection(self._key, self._url)
                if not reply.begun and self._dialect.learn(said, body):
                    continue
                error = error_of(self.peer, said, self.spec.key)
                if said.status == 404:
                    error = ModelUnavailable(f"{error} ({await self._served()})")
                raise error from None
            if self.spec.tokens:
                self._check_tokens(reply)
            return

    def _check_tokens(self, reply: Reply) -> None:
        ids, logprobs = len(reply.token_ids), len(reply.logprobs)
        if ids != logprobs or ids == 0:
            raise ModelError(
                f"{self.peer} gave {ids} token ids and {logprobs} log-probabilities; set tokens: "
                "false for a server that does not tell both"
            )

    async def _served(self) -> str:
        """Which models the server has, for a message; a question back where it lists none."""
        from collab.models.hosted.openai_stream import list_models

        try:
            async with asyncio.timeout(LISTING_SECONDS):
                names = unkeyed(await list_models(self._client), self._key)
        except Exception:
            return f"is {self._url} right, and the model {self.spec.name!r}?"
        more = ", ..." if len(names) > MOST_LISTED else ""
        served = f"it serves {', '.join(names[:MOST_LISTED]) or 'no model'}{more}"
        if self.spec.name not in names:
            return served
        name, url = self.spec.name, self._url
        return f"the server says 404 although it lists {name}: {served}; is the URL right ({url})?"

    def _told(self, error: Exception) -> str:
        return without_key(str(error) or type(error).__name__, self._key)
