"""The interface of both vLLM backends: an engine on this machine, or servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from collab.models.base import Call, SamplerReport
from collab.models.vllm.adapter_store import Version
from collab.records import FinishReason, Sampling

FINISHED: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}
"""vLLM's reasons for a whole response."""

Report = Callable[[int, str], None]
"""Called with the number of new tokens so far, and the text that was added."""


@dataclass(frozen=True)
class GenerationRequest:
    """One response to be generated."""

    token_ids: list[int]
    """The prompt."""
    sampling: Sampling
    seed: int | None
    """Seed of the request's own generator; None uses the engine's."""
    stop_ids: list[int]
    """Tokens that end the response."""
    adapter: Version | None
    report: Report | None
    key: str = ""
    """The same for requests that are better answered by one server: `prefix_key`."""


@dataclass
class Completion:
    """A response, as far as it has come."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason = "failed"
    cached_tokens: int = 0


@dataclass(frozen=True)
class Capacity:
    """The adapters that an engine must hold beside the model."""

    adapters: int = 0
    """The most adapters within one batch."""
    rank: int = 0
    """The largest rank of an adapter."""
    training: bool = False
    """Whether a trainer works on this machine while the engine has nothing to do."""


def prefix_key(call: Call, adapter: str) -> str:
    """Return a key that requests share when their prompts begin alike under the same weights."""
    return f"{call.task}|{call.agent}|{adapter}"


class Backend(Protocol):
    """Generates for the vLLM engine.

    Its methods are called in one event loop, and raise ModelError for what goes wrong.
    """

    context: int
    """The most tokens of a prompt and its response; known once it is open."""

    @property
    def wants_zero_adapter(self) -> bool:
        """Whether requests without an adapter need one of zeros, where there are adapters.

        On a CPU, vLLM's kernels take the last adapter for such a request.
        """

    async def open(self, folder: Path, capacity: Capacity) -> None:
        """Be ready for the model in `folder`: started or found, awake, with `capacity`."""

    async def complete(self, request: GenerationRequest) -> Completion:
        """The response to `request`; its adapter is loaded where it is missing."""

    async def load(self, version: Version) -> None:
        """Hold an adapter, on every replica."""

    async def unload(self, version: Version) -> None:
        """Forget an adapter that no request uses any more."""

    async def report(self) -> SamplerReport:
        """How it was loaded since the last report."""

    async def sleep(self) -> None:
        """Give memory back until `open`, where that is possible."""

    async def aclose(self) -> None:
        """Stop what was started."""
