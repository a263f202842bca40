"""The base of all hosted models: concurrency slots, attempts, time limits, a budget."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from collab.errors import (
    BudgetExceeded,
    CollabError,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RecipeError,
)
from collab.models.base import Batching, Model, Progress, Request
from collab.models.hosted.errors import TransientError
from collab.models.keys import MAX_LINE_LENGTH, Redactor, read_key, redact
from collab.models.tool_text import plain_messages
from collab.recipe.documents import parse_json
from collab.recipe.hosted import AnyHostedSpec, check_address
from collab.records import Action, FinishReason, Sampling, ToolCall, Usage, failure_of
from collab.wording import counted, format_cost


@dataclass
class StreamedCall:
    """A partial tool call."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    """Arguments as JSON text, complete at the end of the stream."""


class Spending:
    """US dollars spent, and reserved for requests in progress."""

    def __init__(
        self, spec: AnyHostedSpec, cache_read_price: float, cache_write_price: float
    ) -> None:
        """Take the prices and the limit of `spec`. Prices of cached prompt tokens are relative to
        that of other prompt tokens.
        """
        self.has_prices = spec.input_price is not None or spec.output_price is not None
        self._spec, self._limit = spec, spec.cost_limit
        self._cache_read_price, self._cache_write_price = cache_read_price, cache_write_price
        self._spent = self._reserved = 0.0

    def cost(self, prompt: int, new: int, *, read: int = 0, written: int = 0) -> float:
        """Return the price of uncached `prompt`, `new`, cache-`read` and cache-`written` tokens."""
        input_price, output_price = self._spec.input_price or 0.0, self._spec.output_price or 0.0
        whole_price = prompt + self._cache_read_price * read + self._cache_write_price * written
        return (whole_price * input_price + new * output_price) / 1_000_000

    def reserve(self, model: str, prompt: int, new: int) -> float:
        """Reserve the highest cost of a request and return it.

        Raises:
            BudgetExceeded: the cost exceeds the budget.
        """
        amount = max(self.cost(prompt, new), self.cost(0, new, written=prompt))
        if self._limit is not None and self._spent + self._reserved + amount > self._limit:
            raise BudgetExceeded(
                f"{model} may spend ${self._limit:g}: {format_cost(self._spent)} is spent,"
                f" {format_cost(self._reserved)} is reserved, and this request may cost"
                f" {format_cost(amount)};"
                " raise cost_limit, or lower sampling.max_new_tokens"
            )
        self._reserved += amount
        return amount

    def settle(self, reserved: float, cost: float) -> None:
        """Replace the `reserved` cost of a request by its actual `cost`."""
        self._reserved -= reserved
        self._spent += cost


FIRST_WAIT = 0.5
MAX_WAIT = 30.0

FORMAT_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors raised by response readers for fields whose type the protocol does not allow."""

MAX_TOKEN_COUNT = 10**9
"""Largest credible token count of one request."""

BYTES_PER_TOKEN = 3
"""Number of UTF-8 bytes that count as one token in the estimated price of an unsent prompt. Real
tokens are usually longer, so the estimate tends to be too high. In Chinese it is about one
character.
"""


@dataclass
class Reply:
    """A partial answer."""

    text: str = ""
    model: str = ""
    stop_reason: str = ""
    has_begun: bool = False
    has_message: bool = False
    """True if the service sent a message, even an empty one."""
    has_counts: bool = False
    """True if the service reported its token counts."""
    prompt_tokens: int = 0
    """Prompt tokens neither read from the cache nor written to it."""
    cache_read: int = 0
    cache_written: int = 0
    new_tokens: int = 0
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    calls: defaultdict[Hashable, StreamedCall] = field(
        default_factory=lambda: defaultdict(StreamedCall)
    )
    """Tool calls, by their position in the answer, or by position and id."""
    last_call_ids: dict[Any, str] = field(default_factory=dict)
    """Id of the last call that began at each position. Some servers give all calls one position."""


CHARACTERS_PER_TOKEN = 4
"""Number of characters that count as one token of progress, if the service reports no count during
the response.
"""


class HostedEngine(Model, ABC):
    """Sends several requests at the same time, up to a limit. A failure concerns one request only.

    A subclass defines how to connect and how one answer is read.
    """

    batching: Batching = "continuous"
    max_temperature: float
    """Highest temperature that the service accepts."""
    finish_reasons: dict[str, FinishReason]
    """Maps the service's finish reasons, in lower case, to collab's."""
    tool_call_reason: str
    """The service's finish reason for a response that calls tools."""
    cache_read_price, cache_write_price = 1.0, 1.0
    """Prices of reading and writing cached prompt tokens, as multiples of the price of a prompt
    token."""
    spec: AnyHostedSpec

    def __init__(self, spec: AnyHostedSpec) -> None:
        """Prepare the client.

        Raises:
            RecipeError: the address is invalid.
            ModelUnavailable: the service needs a key, and there is none.
        """
        self.spec, self._key = spec, read_key(spec.key)
        try:
            self._url = check_address(spec.url, spec.url_variable, "https://HOST", "a key")
        except ValueError as error:
            raise RecipeError(str(error)) from None
        if not self._key and (spec.needs_key or self._url == spec.default_url):
            raise ModelUnavailable(f"model {spec.name!r} needs a key: set {spec.key}")
        parts = urlsplit(self._url)
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
        self.name = f"{spec.engine}:{spec.name}"
        self.peer = f"{self.name} at {host}"
        self._spending = Spending(spec, self.cache_read_price, self.cache_write_price)
        self._slots = asyncio.Semaphore(spec.concurrency)
        self._client: Any = None
        self._client_stack = AsyncExitStack()
        self._open_lock = asyncio.Lock()

    @abstractmethod
    def _connect(self) -> Any:
        """Make a client off the event loop, because imports and certificates take a second.

        It is an asynchronous context manager.
        """

    @abstractmethod
    async def _fill_reply(self, request: Request, reply: Reply, progress: Progress | None) -> None:
        """Make one attempt, and add the received data to `reply`.

        Raises:
            ModelError: there is no answer.
            TransientError: another attempt may succeed.
        """

    async def _read_events(
        self,
        events: AsyncIterator[Any],
        add_event: Callable[[Reply, Any], str],
        reply: Reply,
        request: Request,
        progress: Progress | None,
    ) -> None:
        """Read all events. `add_event` adds an event to `reply` and returns the event's text.

        `progress` gets the text without the key, even if a piece of text ends within it.

        Raises:
            ValueError: an event has a shape that the protocol does not allow.
        """
        redactor, number = Redactor(self._key), 0
        async for event in events:
            try:
                text = add_event(reply, event)
            except FORMAT_ERRORS as error:
                what = f"{error!r} in {event!r:.300}"
                raise ValueError(f"an event in unknown format: {what}") from error
            if text and progress:
                number = len(reply.token_ids) or len(reply.text) // CHARACTERS_PER_TOKEN
                progress(request, number, redactor(text))
        if progress and (rest := redactor.flush()):
            progress(request, number, rest)

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Check that the temperature is not too high, and that no adapter is set."""
        if sampling.temperature > self.max_temperature:
            raise RecipeError(
                f"{self.name} supports temperatures from 0 to {self.max_temperature:g}, not "
                f"{sampling.temperature:g}; lower sampling.temperature for its agents"
            )
        if adapter is not None:
            raise RecipeError(
                f"{self.name} cannot use adapter {adapter}; remove it from its agents"
            )

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Send `requests` concurrently. A failure concerns one request only."""
        async with self._open_lock:
            if self._client is None:
                client = await asyncio.to_thread(self._connect)
                self._client = await self._client_stack.enter_async_context(client)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._answer(r, progress)) for r in requests]
        return [task.result() for task in tasks]

    async def aclose(self) -> None:
        """Close the connections. A second call does nothing."""
        await self._client_stack.aclose()
        self._client = None

    async def _answer(self, request: Request, progress: Progress | None) -> Action:
        started = time.monotonic()
        try:
            self.check(request.sampling, request.adapter)
            if not request.messages:
                raise ModelError(f"{self.name} needs messages, and this request has none")
            async with self._slots:
                reply = await self._ask(request, progress)
            return self._action(reply, time.monotonic() - started)
        except CollabError as error:
            failure = failure_of(error)
            message = redact(failure.message, self._key)
            return Action(
                text="",
                finish_reason="failed",
                model=self.name,
                seconds=time.monotonic() - started,
                failure=failure.model_copy(update={"message": message}),
            )

    async def _ask(self, request: Request, progress: Progress | None) -> Reply:
        """Return the reply of the first attempt that succeeds, after at most `retries` others.

        The wait doubles after each attempt, with jitter. A longer wait that the service asks for is
        used.

        Raises:
            ModelError: the last attempt failed, or the service asks for a wait of more than the
                time limit.
        """
        retries, max_wait = self.spec.retries, self.spec.seconds
        for number in range(retries + 1):
            try:
                return await self._attempt(request, progress)
            except TransientError as failed:
                last = failed
            if number == retries:
                break
            wait = min(FIRST_WAIT * 2**number, MAX_WAIT) * random.uniform(0.5, 1.0)
            if last.retry_after is not None:
                if last.retry_after > max_wait:
                    raise type(last.error)(
                        f"{last.error}; it asks to wait {last.retry_after:g} s, more than the limit"
                        f" of {max_wait:g} s",
                        last.error.summary,
                    ) from None
                wait = max(wait, last.retry_after)
            await asyncio.sleep(wait)
        attempts = counted(retries + 1, "attempt")
        message = f"gave up after {attempts}: {last.error}"
        raise type(last.error)(message, last.error.summary) from None

    async def _attempt(self, request: Request, progress: Progress | None) -> Reply:
        """Make one attempt within the budget, and settle its cost: the reserved one if the answer
        broke off."""
        text = "".join(m.content for m in plain_messages(request))
        prompt_tokens = len(text.encode(errors="replace")) // BYTES_PER_TOKEN
        reserved = self._spending.reserve(self.name, prompt_tokens, request.sampling.max_new_tokens)
        reply, seconds = Reply(), self.spec.seconds
        try:
            async with asyncio.timeout(seconds):
                await self._fill_reply(request, reply, progress)
        except TimeoutError:
            raise ModelTimeout(
                f"{self.peer} did not finish within {seconds:g} s; raise its `seconds`, "
                "or lower sampling.max_new_tokens"
            ) from None
        finally:
            is_complete = reply.stop_reason and reply.has_counts
            cost = self._cost(reply) if is_complete else reserved if reply.has_begun else 0.0
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
        """Make the action of an answer, or raise ModelError if it makes none."""
        try:
            return self._build_action(reply, seconds)
        except FORMAT_ERRORS as error:
            raise ModelError(
                f"{self.peer} sent an answer in unknown format ({type(error).__name__})"
            ) from error

    def _build_action(self, reply: Reply, seconds: float) -> Action:
        finish_reason = self.finish_reasons.get(str(reply.stop_reason).lower())
        if reply.calls and reply.stop_reason == self.tool_call_reason:
            finish_reason = "stop"
        if finish_reason is None:
            reason = f"{reply.stop_reason!s:.200}"
            raise ModelError(f"{self.peer} stopped for an unknown reason: {reason}")
        # A call that was cut off may lack its arguments.
        calls, call_text = self._tool_calls(reply, "{}" if finish_reason == "stop" else "")
        return Action(
            text=redact(reply.text, self._key) + call_text,
            tool_calls=calls,
            token_ids=tuple(reply.token_ids),
            logprobs=tuple(reply.logprobs),
            prompt_ids=tuple(reply.prompt_ids),
            finish_reason=finish_reason,
            model=f"{self.spec.engine}:{redact(str(reply.model), self._key)[:MAX_LINE_LENGTH]}",
            usage=Usage(
                prompt_tokens=reply.prompt_tokens + reply.cache_read + reply.cache_written,
                new_tokens=reply.new_tokens,
                cached_tokens=reply.cache_read,
                cost=self._cost(reply) if reply.has_counts and self._spending.has_prices else None,
            ),
            seconds=seconds,
        )

    def _tool_calls(self, reply: Reply, default: str) -> tuple[tuple[ToolCall, ...], str]:
        """Return the tool calls, or their text if the model's arguments are not a JSON object.

        `default` is the JSON of the arguments of a call that has none.
        """
        pieces = [  # without an id, a call would count as part of the text
            (c.id or f"call_{n}", c.name, redact(c.arguments, self._key))
            for n, c in enumerate(reply.calls.values())
        ]
        try:
            calls = [
                ToolCall(id=id_, name=name, arguments=parse_json(arguments or default))
                for id_, name, arguments in pieces
            ]
        except ValueError:
            texts = [f'<tool_call>{{"name": "{n}", "arguments": {a}}}' for _, n, a in pieces]
            return (), "\n" + "\n".join(texts)
        return tuple(calls), ""


def parse_token_count(value: Any) -> int:
    """Return a service's token count, 0 if it is missing, or raise ValueError if impossible."""
    number = int(value or 0)
    if not 0 <= number <= MAX_TOKEN_COUNT:
        raise ValueError(f"{number} tokens, and one request has 0 to {MAX_TOKEN_COUNT}")
    return number
