"""Claude, through Anthropic's Messages API: requests go out at once, a few at a time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from collab.errors import CollabError, ModelError, ModelTimeout, ModelUnavailable, RecipeError
from collab.models.base import Batching, Progress, Request
from collab.models.retry import retrying
from collab.models.spending import Spending
from collab.recipe.model import AnthropicModel
from collab.records import Action, FinishReason, Message, Sampling, Usage, failure_of

if TYPE_CHECKING:
    from collab.models.anthropic_stream import Reply

KEY = "ANTHROPIC_API_KEY"
HOTTEST = 1.0
CHARACTERS_PER_TOKEN = 3
"""For the price of a prompt that is not sent yet; a careful guess."""

FINISHED: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class AnthropicEngine:
    """Claude. It gives no tokens and no log-probabilities, so it can be a frozen agent only.

    Settings are sent where they differ from the defaults, since newer models refuse some of
    them; `seed` has no counterpart.
    """

    batching: Batching = "continuous"

    def __init__(self, spec: AnthropicModel) -> None:
        """Raises ModelUnavailable when the environment holds no key."""
        self._key = os.environ.get(KEY, "")
        if not self._key:
            raise ModelUnavailable(f"model {spec.name!r} needs a key: set {KEY}")
        self.spec = spec
        self.name = f"anthropic:{spec.name}"
        self._spending = Spending(spec.input_price, spec.output_price, spec.cost_limit)
        self._slots = asyncio.Semaphore(spec.concurrency)
        self._client: Any = None
        self._opening = asyncio.Lock()

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Raise RecipeError for a temperature above 1 or an adapter."""
        if sampling.temperature > HOTTEST:
            raise RecipeError(
                f"{self.name} takes temperatures from 0 to {HOTTEST:g}, not "
                f"{sampling.temperature:g}; lower sampling.temperature for its agents"
            )
        if adapter is not None:
            raise RecipeError(f"{self.name} cannot use adapter {adapter}; give its agents none")

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Answer `requests` side by side; what one cannot be answered is its own failure."""
        await self._open()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._answer(r, progress)) for r in requests]
        return [task.result() for task in tasks]

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _open(self) -> None:
        """The client, made off the event loop: importing the SDK takes a second."""
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)

    def _connect(self) -> Any:
        from anthropic import AsyncAnthropic

        # Time limits and further attempts are ours.
        return AsyncAnthropic(
            api_key=self._key,
            base_url=self.spec.base_url,
            timeout=None,
            max_retries=0,
        )

    async def _answer(self, request: Request, progress: Progress | None) -> Action:
        started = time.monotonic()
        try:
            self.check(request.sampling, request.adapter)
            async with self._slots:
                reply = await self._ask(request, progress)
            return self._action(reply, time.monotonic() - started)
        except CollabError as error:
            return Action(
                text="",
                finish_reason="failed",
                model=self.name,
                seconds=time.monotonic() - started,
                failure=failure_of(error),
            )

    async def _ask(self, request: Request, progress: Progress | None) -> Reply:
        """One request with its further attempts, within the budget."""
        body = body_of(self.spec.name, request)
        guess = sum(len(m.content) for m in request.messages) // CHARACTERS_PER_TOKEN

        async def attempt() -> Reply:
            most = request.sampling.max_new_tokens
            reserved = self._spending.reserve(self.name, guess, most)
            return await self._attempt(body, request, progress, reserved)

        return await retrying(attempt, retries=self.spec.retries, patience=self.spec.seconds)

    async def _attempt(
        self, body: dict[str, Any], request: Request, progress: Progress | None, reserved: float
    ) -> Reply:
        from collab.models.anthropic_stream import Reply, errors_named

        reply = Reply()
        try:
            async with asyncio.timeout(self.spec.seconds):
                with errors_named(self.name, self._key):
                    await reply.read(self._client, body, request, progress)
        except TimeoutError:
            raise ModelTimeout(
                f"{self.name} did not finish within {self.spec.seconds:g} s; raise its `seconds`, "
                "or lower sampling.max_new_tokens"
            ) from None
        finally:
            cost = self._cost(reply) if reply.stop_reason else reserved if reply.begun else 0.0
            self._spending.settle(reserved, cost)
        return reply

    def _cost(self, reply: Reply) -> float:
        return self._spending.cost(
            reply.prompt_tokens,
            reply.new_tokens,
            read=reply.cache_read,
            written=reply.cache_written,
        )

    def _action(self, reply: Reply, seconds: float) -> Action:
        finish_reason = FINISHED.get(reply.stop_reason)
        if finish_reason is None:
            raise ModelError(f"{self.name} stopped for a reason unknown here: {reply.stop_reason}")
        return Action(
            text=reply.text,
            finish_reason=finish_reason,
            model=f"anthropic:{reply.model}",
            usage=Usage(
                prompt_tokens=reply.prompt_tokens + reply.cache_read + reply.cache_written,
                new_tokens=reply.new_tokens,
                cached_tokens=reply.cache_read,
                cost=self._cost(reply),
            ),
            seconds=seconds,
        )


def body_of(model: str, request: Request) -> dict[str, Any]:
    """The arguments of the SDK's `messages.create`; raises ModelError for one of
    token ids.

    The system message is the same for every problem, and an agent's history for its next turn,
    so both are marked for Anthropic's prompt cache.
    """
    if not request.messages:
        raise ModelError(f"anthropic:{model} reads messages, and this request has none")
    system = "\n\n".join(m.content for m in request.messages if m.role == "system")
    history = [m for m in request.messages if m.role != "system"]
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": sampling.max_new_tokens,
        "messages": [_message(m, marked=len(history) > 1 and m is history[-1]) for m in history],
    }
    if system:
        body["system"] = [_text(system, marked=True)]
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


def _message(message: Message, *, marked: bool) -> dict[str, Any]:
    return {"role": message.role, "content": [_text(message.content, marked=marked)]}


def _text(text: str, *, marked: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    if marked:
        block["cache_control"] = {"type": "ephemeral"}
    return block
