"""One vLLM server: its model, its adapters, its answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from collab.errors import ModelError, ModelRefused, ModelUnavailable
from collab.models.event_stream import event_data
from collab.models.hosted.errors import html_error, is_html, parse_error_body
from collab.models.keys import redact, redact_line
from collab.models.vllm.adapter_store import Version
from collab.models.vllm.backend import FINISH_REASONS, Completion, GenerationRequest, time_limit
from collab.recipe.documents import parse_json
from collab.recipe.model import VLLMSpec

if TYPE_CHECKING:
    from httpx import AsyncClient, Response


START_HINT = (
    "start it with --enable-lora --max-loras N --max-lora-rank R --logprobs-mode"
    " processed_logprobs --seed S and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
)


class ServerLost(Exception):
    """The server does not answer, or was restarted and has lost its adapters."""


class ServerConnection:
    """Sends requests to one server, and raises an error for an answer that is not a result.

    Raises:
        ServerLost: the request may work once the server is back.
        ModelUnavailable: the server was started with unsuitable options.
        ModelRefused: the server does not accept the request.
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
        """Send GET to `path`, or POST with the JSON `body`, and return the response. Error statuses
        in `accept` do not raise.
        """
        method = "GET" if body is None else "POST"
        async with self._connection_errors():
            response = await self._client.request(method, self.url + path, json=body)
        if response.status_code not in accept:
            await self.check(response)
        return response

    @asynccontextmanager
    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[Response]:
        """Context manager that posts `body` and yields the response as it arrives. The response's
        status is not checked."""
        async with (
            self._connection_errors(),
            self._client.stream("POST", self.url + path, json=body) as response,
        ):
            yield response

    async def parse_events(self, response: Response) -> AsyncIterator[dict[str, Any]]:
        """Yield the JSON of a response: one object, or one per event of a stream."""
        if "json" in response.headers.get("content-type", ""):
            yield self.parse((await response.aread()).decode(errors="replace"))
            return
        async for data in event_data(response):
            yield self.parse(data.decode(errors="replace"))

    async def check(self, response: Response) -> None:
        """Check the status of a response.

        Raises:
            ModelUnavailable: the server requires a key, or lacks the path.
            ServerLost: the server failed, and may work later.
            ModelRefused: the server refused the request.
        """
        if response.is_success:
            return
        reason = self._reason((await response.aread()).decode(errors="replace"))
        status = response.status_code
        if status in (401, 403):
            raise ModelUnavailable(f"{self.url} needs a key: set {VLLMSpec.key} to its --api-key")
        if status == 404:
            raise ModelUnavailable(f"{self.url} has no {response.url.path}: {reason}; {START_HINT}")
        if status > 500 or (status == 500 and "lora" not in response.url.path):
            raise ServerLost(f"status {status}: {reason}")
        raise ModelRefused(f"{self.url} refused, status {status}: {reason}")

    @asynccontextmanager
    async def _connection_errors(self) -> AsyncIterator[None]:
        from httpx import RequestError

        try:
            yield
        except RequestError as error:
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            raise ServerLost(redact_line(reason, self._key)) from None

    def parse(self, text: str) -> dict[str, Any]:
        """Return the JSON object in `text`, without the key."""
        try:
            answer = redact(parse_json(text), self._key)
        except ValueError:
            why = f"; {html_error(self.url)}" if is_html(text) else ""
            raise ModelError(
                f"{self.url} did not send JSON: {redact_line(text, self._key)[:80]!r}{why}"
            ) from None
        if not isinstance(answer, dict) or "error" in answer:
            raise ServerLost(f"it failed: {self._reason(text)}")
        return answer

    def _reason(self, body: str) -> str:
        """Return the message of an error's body."""
        if is_html(body):
            return html_error(self.url)
        return redact_line(parse_error_body(body, self._key)[1], self._key)


PROBE_SECONDS = 30.0
"""Time limit for checking a server before it is used."""
UNLOAD_SECONDS = 5.0
"""Time limit for unloading adapters on leaving."""
LAG_POLL_SECONDS = 1.0
"""Seconds between two attempts to load an adapter that the server cannot see yet."""
PROBE_TEMPERATURE, PROBE_NOISE = 2.0, 1e-3
"""Temperature of the probe, and the largest change in log-probabilities that counts as noise."""

TOKEN_LIMIT = 2**31
FORMAT_ERRORS = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)


class Server:
    """A vLLM server. Call `probe` before its first request. `in_flight` counts requests."""

    def __init__(
        self, url: str, client: AsyncClient, seconds: float, key: str, lag: float = 0.0
    ) -> None:
        """Wrap a connection. The server sees a new adapter on its disk within `lag` seconds."""
        self.url = url
        self._lag = lag
        self.in_flight = 0
        self.context = 0
        self._http = ServerConnection(url, client, key)
        self._seconds = seconds
        self._model = ""
        self._loaded: set[str] = set()
        self._load_lock = asyncio.Lock()

    async def probe(self) -> None:
        """Check which model the server has, and that it can be used. Call this before the first
        request.

        Raises:
            ServerLost: the server is not there.
            ModelUnavailable: the model cannot be used.
        """
        self._loaded.clear()
        async with time_limit(self._http.url, PROBE_SECONDS):
            listed = self._http.parse((await self._http.ask("/v1/models")).text)
            try:
                base = next(card for card in listed["data"] if not card.get("parent"))
                self._model, self.context = str(base["id"]), int(base["max_model_len"])
            except FORMAT_ERRORS as error:
                raise ModelUnavailable(f"{self.url} is not a vLLM server: {error!r}") from error
            await self._check_logprobs()

    async def complete(self, request: GenerationRequest) -> Completion:
        """Return the response to a request.

        Raises:
            ServerLost: the server does not answer; call `probe` before another try.
        """
        self.in_flight += 1
        try:
            async with time_limit(self._http.url, self._seconds):
                if request.adapter is not None:
                    await self._load(request.adapter)
                return await self._complete(request)
        finally:
            self.in_flight -= 1

    async def read_metrics(self) -> str:
        """Return the server's metrics in Prometheus's text format, or "" if it publishes none."""
        async with time_limit(self._http.url, PROBE_SECONDS):
            response = await self._http.ask("/metrics", accept=(401, 403, 404))
        return response.text if response.is_success else ""

    async def load(self, version: Version) -> None:
        async with time_limit(self._http.url, self._seconds):
            await self._load(version)

    async def unload(self, version: Version) -> None:
        if version.name in self._loaded:
            async with time_limit(self._http.url, self._seconds):
                await self._unload(version.name)

    async def unload_all(self) -> None:
        """Unload all our adapters, because others may use the server later."""
        async with time_limit(self._http.url, UNLOAD_SECONDS):
            for name in sorted(self._loaded):
                await self._unload(name)

    async def _unload(self, name: str) -> None:
        self._loaded.discard(name)
        await self._http.ask("/v1/unload_lora_adapter", {"lora_name": name}, accept=(404,))

    async def _load(self, version: Version) -> None:
        async with self._load_lock:
            if version.name in self._loaded:
                return
            body = {"lora_name": version.name, "lora_path": str(version.folder)}
            try:
                await self._ask_to_load(body)
            except ModelRefused as error:
                if "already been loaded" not in str(error):
                    await self._http.ask("/health")
                    hint = f"{START_HINT}, R at least {version.rank}"
                    raise ModelUnavailable(f"{error}; {hint}") from None
            self._loaded.add(version.name)

    async def _ask_to_load(self, body: Mapping[str, str]) -> None:
        """Ask the server to load an adapter, and repeat if it does not find it yet. A network disk
        may show it late.
        """
        until = time.monotonic() + self._lag
        while True:
            response = await self._http.ask("/v1/load_lora_adapter", body, accept=(404,))
            if response.status_code != 404 or time.monotonic() > until:
                break
            await asyncio.sleep(LAG_POLL_SECONDS)
        if response.status_code == 404 and body["lora_path"] in response.text:
            raise ModelUnavailable(
                f"{self.url} does not find adapter {body['lora_path']}; set the model's"
                " adapter_folder to a folder that has the same path on this machine and on the"
                " server's"
            )
        await self._http.check(response)

    async def _complete(self, request: GenerationRequest) -> Completion:
        body = self._body(request)
        completion = Completion()
        async with self._http.stream("/v1/completions", body) as response:
            if response.status_code == 404:
                raise ServerLost(f"it does not serve {body['model']}")
            await self._http.check(response)
            async for answer in self._http.parse_events(response):
                self._add_answer(completion, answer, request)
        if completion.finish_reason == "failed":
            raise ServerLost("it broke off an answer")
        return completion

    def _body(self, request: GenerationRequest) -> dict[str, Any]:
        """Return the request body with every setting, since a server takes missing ones from the
        model's files."""
        return {
            "model": request.adapter.name if request.adapter else self._model,
            "prompt": request.token_ids,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "return_token_ids": True,
            "stream": request.report is not None,
            **request.settings,
        }

    def _add_answer(
        self, completion: Completion, answer: Mapping[str, Any], request: GenerationRequest
    ) -> None:
        """Add one answer, or one event of it."""
        try:
            text = _append_tokens(completion, answer)
        except FORMAT_ERRORS as error:
            raise ModelError(f"{self.url} sent an answer in unknown format: {error!r}") from error
        if request.report:
            request.report(len(completion.token_ids), text)

    async def _check_logprobs(self) -> None:
        """Raise ModelUnavailable unless log-probabilities depend on the temperature.

        Log-probabilities of another distribution than the sampled one would bias training.
        """
        cold, hot = [await self._max_logprob(heat) for heat in (1.0, PROBE_TEMPERATURE)]
        if abs(cold - hot) < PROBE_NOISE:
            raise ModelUnavailable(
                f"{self.url} returns log-probabilities before the temperature (--logprobs-mode"
                f" raw_logprobs); {START_HINT}"
            )

    async def _max_logprob(self, temperature: float) -> float:
        """Return the largest log-probability of a first token."""
        body = {
            "model": self._model,
            "prompt": [1],
            "max_tokens": 1,
            "temperature": temperature,
            "logprobs": 1,
            "top_k": -1,
            "top_p": 1.0,
        }
        answer = self._http.parse((await self._http.ask("/v1/completions", body)).text)
        try:
            return float(max(answer["choices"][0]["logprobs"]["top_logprobs"][0].values()))
        except FORMAT_ERRORS as error:
            raise ModelUnavailable(f"{self.url} returns no log-probabilities: {error!r}") from error


def _append_tokens(completion: Completion, answer: Mapping[str, Any]) -> str:
    """Add the tokens of an answer, and return the text that they add."""
    if not answer["choices"]:
        return ""
    choice = answer["choices"][0]
    tokens = [_parse_token(value) for value in choice["token_ids"] or ()]
    logprobs = (choice["logprobs"] or {}).get("token_logprobs") or []
    if len(tokens) != len(logprobs):
        raise ValueError(f"{len(tokens)} token ids and {len(logprobs)} log-probabilities")
    completion.token_ids += tokens
    completion.logprobs += [float(value) for value in logprobs]
    completion.finish_reason = FINISH_REASONS.get(choice["finish_reason"], "failed")
    details = (answer.get("usage") or {}).get("prompt_tokens_details") or {}
    completion.cached_tokens = int(details.get("cached_tokens") or 0)
    return str(choice["text"] or "")


def _parse_token(value: Any) -> int:
    if type(value) is not int or not 0 <= value < TOKEN_LIMIT:
        raise ValueError(f"{value!r:.40} is not a token id")
    return value
