"""The interface of both vLLM backends, a local engine or servers, and what they share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from collab.errors import ModelTimeout
from collab.models.base import Call, SamplerReport
from collab.models.vllm.adapter_store import Version
from collab.records import FinishReason, Sampling

FINISH_REASONS: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}
"""vLLM's finish reasons of a complete response."""

Report = Callable[[int, str], None]
"""Called with the number of new tokens so far, and the text that was added."""


@dataclass(frozen=True)
class GenerationRequest:
    """A request for one response."""

    token_ids: list[int]
    """Tokens of the prompt."""
    sampling: Sampling
    seed: int | None
    """Seed of the request's own generator, or None to use the engine's."""
    stop_ids: list[int]
    """Tokens that end the response."""
    adapter: Version | None
    report: Report | None
    key: str = ""
    """Routing key, equal for requests that one server should answer: `prefix_key`."""


@dataclass
class Completion:
    """A partial response."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason = "failed"
    cached_tokens: int = 0


@dataclass(frozen=True)
class Capacity:
    """The adapters that an engine must hold in addition to the model."""

    adapters: int = 0
    """Maximum number of adapters in one batch."""
    rank: int = 0
    """Largest rank of an adapter."""
    training: bool = False
    """True if a trainer works on this machine while the engine is idle."""


@asynccontextmanager
async def time_limit(peer: str, seconds: float) -> AsyncIterator[None]:
    """Context manager with a time limit for an answer of `peer`.

    Raises:
        ModelTimeout: the block takes longer than `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise ModelTimeout(
            f"{peer} did not answer within {seconds:g} s; raise the model's `seconds` and"
            " `ready_seconds`, or lower sampling.max_new_tokens"
        ) from None


def prefix_key(call: Call, adapter: str) -> str:
    """Return a key that is the same for requests of one task, agent and adapter. Their prompts
    begin alike."""
    return f"{call.task}|{call.agent}|{adapter}"


class Backend(Protocol):
    """Generates for the vLLM engine.

    Its methods are called in one event loop, and raise ModelError on failure.
    """

    context: int
    """Maximum number of tokens of a prompt and its response together, known once it is open."""

    @property
    def wants_zero_adapter(self) -> bool:
        """True if requests without an adapter need an adapter of zeros as soon as others have
        adapters.

        On a CPU, vLLM's kernels apply the last adapter to such a request.
        """

    async def open(self, folder: Path, capacity: Capacity) -> None:
        """Start, or connect to, the model in `folder` with room for the adapters of `capacity`."""

    async def complete(self, request: GenerationRequest) -> Completion:
        """Return the response to `request`. If necessary, the request's adapter is loaded first."""

    async def load(self, version: Version) -> None:
        """Load a version of an adapter on every replica."""

    async def unload(self, version: Version) -> None:
        """Unload a version of an adapter that no request uses anymore."""

    async def report(self) -> SamplerReport:
        """Return the load of the servers since the last report."""

    async def sleep(self) -> None:
        """Release memory until `open`, if possible."""

    async def aclose(self) -> None:
        """End every process that was started, and close connections."""
