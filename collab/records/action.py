"""How a model samples, and what it answers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from collab.records.base import Record
from collab.records.failure import Failure
from collab.records.message import Message, ToolCall

FinishReason = Literal["stop", "length", "failed"]


class Sampling(Record):
    """How a model samples. `temperature` 0 is greedy."""

    temperature: float = Field(default=1.0, ge=0.0, le=5.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    """Keep the k likeliest tokens; 0 keeps all."""
    max_new_tokens: int = Field(default=256, ge=1)
    stop: tuple[str, ...] = ()
    """The response ends before the first of these strings."""


class Usage(Record):
    prompt_tokens: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that a service read from its cache."""
    cost: float | None = None
    """US dollars; None where the engine has no price."""

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            new_tokens=self.new_tokens + other.new_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=sum(costs) if costs else None,
        )


def _is_none(value: object) -> bool:
    return value is None


class Action(Record):
    """One agent's whole response: the sequence-level action a_i,t."""

    text: str
    token_ids: tuple[int, ...] = ()
    """The sampled tokens, the end-of-turn token included when it was sampled."""
    logprobs: tuple[float, ...] = ()
    """Log-probability of each of `token_ids` under the sampling distribution, in nats."""
    prompt_ids: tuple[int, ...] = ()
    finish_reason: FinishReason = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls of tools that it asks for, where the agent has tools."""
    model: str = ""
    adapter: str | None = None
    version: int | None = Field(default=None, exclude_if=_is_none)
    """Of an adapter that a trainer changes: the steps of training that it had taken, all tokens."""
    usage: Usage = Usage()
    seconds: float = 0.0
    """Wall time from the request's dispatch to its answer, whatever else is in its batch."""
    failure: Failure | None = None

    @property
    def message(self) -> Message:
        """The response as the agent's history holds it."""
        return Message(role="assistant", content=self.text, tool_calls=self.tool_calls)
