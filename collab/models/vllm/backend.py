"""Terms that both vLLM backends share: the engine on this machine, and servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from collab.errors import ModelTimeout
from collab.models.base import Call
from collab.models.vllm.adapter_store import Version
from collab.records import FinishReason, Sampling

FINISH_REASONS: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}
"""vLLM's finish reasons of a complete response."""

ReportText = Callable[[int, str], None]
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
    report: ReportText | None
    key: str = ""
    """Routing key, equal for requests that one server should answer: `prefix_key`."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in vLLM's terms, for an engine and for a server."""
        sampling = self.sampling
        seed = {} if self.seed is None else {"seed": self.seed}
        return {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "max_tokens": sampling.max_new_tokens,
            **seed,
            "stop": list(sampling.stop),
            "stop_token_ids": self.stop_ids,
            "logprobs": 0,
        }


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
