"""What stands behind the vLLM engine: an engine on this machine, or servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from collab.models.vllm.adapter_store import Version
from collab.records import FinishReason, Sampling

FINISHED: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}
"""vLLM's reasons for a whole response."""

Tell = Callable[[int, str], None]
"""Told of the new tokens so far, and the text that they add."""


@dataclass(frozen=True)
class Prompt:
    """One response to be generated."""

    token_ids: list[int]
    sampling: Sampling
    seed: int
    stop_ids: list[int]
    """Tokens that end the response."""
    adapter: Version | None
    tell: Tell | None


@dataclass
class Completion:
    """A response, as far as it has come."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason = "failed"
    cached_tokens: int = 0


@dataclass(frozen=True)
class Room:
    """What an engine is to hold beside the model."""

    adapters: int = 0
    """Within one batch."""
    rank: int = 0
    """The largest of an adapter."""
    training: bool = False
    """Whether a trainer works on this machine while the engine has nothing to do."""


class Backend(Protocol):
    """Its methods are called in one event loop; what goes wrong is a ModelError."""

    context: int
    """Most tokens of prompt and response; known once it is open."""

    @property
    def wants_blank(self) -> bool:
        """Whether requests without an adapter need one of zeros, where there are adapters.

        For such a request vLLM's kernels on a CPU take the adapter in the last place.
        """

    async def open(self, folder: Path, room: Room) -> None:
        """Be ready for the model in `folder`: started or found, awake, with `room`."""

    async def complete(self, prompt: Prompt) -> Completion:
        """The response to `prompt`; its adapter is loaded where it is missing."""

    async def load(self, version: Version) -> None:
        """Hold an adapter, on every replica."""

    async def unload(self, version: Version) -> None:
        """Forget an adapter that nobody uses."""

    async def sleep(self) -> None:
        """Give memory back until `open`, where that is possible."""

    async def aclose(self) -> None:
        """Stop what was started."""
