"""Claude, through Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

from collab.errors import ModelUnavailable, RecipeError
from collab.models.base import Progress, Request
from collab.models.hosted.anthropic_messages import messages_of, text_block
from collab.models.hosted.engine import HostedEngine, Reply, usual_url
from collab.models.hosted.spending import Spending
from collab.models.keys import read_key
from collab.recipe.hosted import AnthropicModel
from collab.records import FinishReason, Sampling

KEY = "ANTHROPIC_API_KEY"
URL = "https://api.anthropic.com"
URL_VARIABLE = "ANTHROPIC_BASE_URL"
CACHE_READ = 0.1
CACHE_WRITE = 1.25
"""Prices of reading and writing cached prompt tokens, as multiples of the price of a prompt token
(the cache that lasts five minutes)."""


class AnthropicEngine(HostedEngine):
    """Claude. It gives no tokens and no log-probabilities, so it can be a frozen agent only.

    Settings are sent where they differ from the defaults, since newer models refuse some of
    them; `seed` has no counterpart.
    """

    hottest = 1.0
    finished: dict[str, FinishReason] = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
    }
    calls_tools = "tool_use"

    def __init__(self, spec: AnthropicModel) -> None:
        """Raises RecipeError for a bad address, ModelUnavailable without a key."""
        key = read_key(KEY)
        if not key:
            raise ModelUnavailable(f"model {spec.name!r} needs a key: set {KEY}")
        spending = Spending(
            spec.input_price,
            spec.output_price,
            spec.cost_limit,
            cache_read=CACHE_READ,
            cache_write=CACHE_WRITE,
        )
        self._url = spec.base_url or usual_url(URL_VARIABLE, URL)
        super().__init__("anthropic", spec, self._url, spending, key)
        self.spec = spec

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Raise RecipeError also for a stop string of white space, which the API refuses."""
        super().check(sampling, adapter)
        for string in sampling.stop:
            if not string.strip():
                raise RecipeError(
                    f"{self.name} cannot stop at white space alone, {string!r}; take it out of "
                    "sampling.stop for its agents"
                )

    def _connect(self) -> Any:
        from anthropic import AsyncAnthropic

        # Time limits and further attempts are ours.
        return AsyncAnthropic(
            api_key=self._key,
            base_url=self._url,
            timeout=None,
            max_retries=0,
        )

    async def _disconnect(self) -> None:
        await self._client.close()

    async def _answer(self, request: Request, reply: Reply, progress: Progress | None) -> None:
        from collab.models.hosted.anthropic_stream import errors_named, read

        body = body_of(self.spec.name, request)
        with errors_named(self.peer, self._key):
            await read(self._client, body, reply, request, progress)


def body_of(model: str, request: Request) -> dict[str, Any]:
    """The arguments of the SDK's `messages.create`.

    The system message is the same for every problem, and an agent's history for its next turn,
    so both are marked for Anthropic's prompt cache. Messages without text, e.g. an agent's empty
    answer, are left out: the API refuses them.
    """
    told = [m for m in request.messages if m.content.strip() or m.tool_calls or m.answers]
    system = "\n\n".join(m.content for m in told if m.role == "system")
    history = [m for m in told if m.role != "system"]
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": sampling.max_new_tokens,
        "messages": messages_of(history),
    }
    if request.tools:
        body["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.parameters}
            for t in request.tools
        ]
        if not request.may_call:
            body["tool_choice"] = {"type": "none"}
    if system:
        body["system"] = [text_block(system, marked=True)]
    if settings := _settings(sampling):
        body["extra_body"] = settings
    if sampling.stop:
        body["stop_sequences"] = list(sampling.stop)
    return body


def _settings(sampling: Sampling) -> dict[str, float]:
    """What differs from the defaults; the SDK's later versions have no arguments for these."""
    settings: dict[str, float] = {}
    if sampling.temperature != 1.0:
        settings["temperature"] = sampling.temperature
    if sampling.top_p != 1.0:
        settings["top_p"] = sampling.top_p
    if sampling.top_k:
        settings["top_k"] = sampling.top_k
    return settings
