"""HTTP with one vLLM server: what its statuses and broken connections mean."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from collab.errors import ModelError, ModelRefused, ModelTimeout, ModelUnavailable
from collab.models.event_stream import event_data
from collab.models.hosted.errors import is_page, page_at
from collab.models.keys import unkeyed, without_key
from collab.recipe.documents import parse_json

if TYPE_CHECKING:
    from httpx import AsyncClient, Response

START = (
    "start it with --enable-lora --max-loras N --max-lora-rank R --logprobs-mode"
    " processed_logprobs --seed S and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
)


class ServerLost(Exception):
    """The server does not answer, or was started anew and has forgotten what it is asked for."""


class Connection:
    """Sends requests to one server, and raises an error for an answer that is not a result.

    Raises ServerLost where the request may work once the server is back, ModelUnavailable for a
    server that cannot be used as it was started, ModelRefused for a request that it does not take.
    """

    def __init__(self, url: str, client: AsyncClient, key: str) -> None:
        self.url = url
        self._client = client
        self._key = key

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        accept: tuple[int, ...] = (),
    ) -> Response:
        """Get `path`, or post `body` to it; the statuses in `accept` are answers too."""
        method = "GET" if body is None else "POST"
        async with self._reached():
            response = await self._client.request(method, self.url + path, json=body)
        if response.status_code not in accept:
            await self.check(response)
        return response

    @asynccontextmanager
    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[Response]:
        """Post `body`; the answer comes piece by piece, and its status is not looked at."""
        async with (
            self._reached(),
            self._client.stream("POST", self.url + path, json=body) as response,
        ):
            yield response

    async def answers(self, response: Response) -> AsyncIterator[dict[str, Any]]:
        """The one answer, or the events of a stream."""
        if "json" in response.headers.get("content-type", ""):
            await response.aread()
            yield self.read(response)
            return
        async for data in event_data(response):
            yield self._parsed(data.decode(errors="replace"))

    def read(self, response: Response) -> dict[str, Any]:
        return self._parsed(response.text)

    async def check(self, response: Response) -> None:
        """Raise what an error status means."""
        if response.is_success:
            return
        said = self._reason((await response.aread()).decode(errors="replace"))
        status = response.status_code
        if status in (401, 403):
            raise ModelUnavailable(f"{self.url} wants a key: set VLLM_API_KEY to its --api-key")
        if status == 404:
            raise ModelUnavailable(f"{self.url} has no {response.url.path}: {said}; {START}")
        if status > 500 or (status == 500 and "lora" not in response.url.path):
            raise ServerLost(f"status {status}: {said}")
        raise ModelRefused(f"{self.url} refused, status {status}: {said}")

    @asynccontextmanager
    async def bounded(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise ModelTimeout(
                f"{self.url} did not answer within {seconds:g} s; raise the model's `seconds`, or"
                " lower sampling.max_new_tokens"
            ) from None

    @asynccontextmanager
    async def _reached(self) -> AsyncIterator[None]:
        from httpx import RequestError

        try:
            yield
        except RequestError as error:
            told = f"{type(error).__name__}: {error}".rstrip(": ")
            raise ServerLost(without_key(told, self._key)) from None

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            answer = unkeyed(parse_json(text), self._key)
        except ValueError:
            why = f"; {page_at(self.url)}" if is_page(text) else ""
            raise ModelError(
                f"{self.url} sent no JSON: {without_key(text, self._key)[:80]!r}{why}"
            ) from None
        if not isinstance(answer, dict) or "error" in answer:
            raise ServerLost(f"it failed: {self._reason(text)}")
        return answer

    def _reason(self, said: str) -> str:
        """What an error's body says."""
        if is_page(said):
            return page_at(self.url)
        try:
            error = parse_json(said)["error"]
            reason = str(error["message"] if isinstance(error, dict) else error)
        except (ValueError, LookupError, TypeError):  # a body of another form, told as it is
            reason = said
        return without_key(reason, self._key)
