"""The one interface of every engine: a batch of requests in, as many actions out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from pydantic import Field

from collab.records import Action, Message, Record, Sampling, Style, ToolSpec


class Call(Record):
    """Which decision a request is for; scripts and replays find their answer by it."""

    task: str
    sample: int
    turn: int
    round: int
    agent: str
    step: int = 0
    """The how-manieth response of the agent's move; above 0 for agents that use tools."""


class Request(Record):
    """One response to be generated. Exactly one of `messages` and `prompt_ids` is given."""

    call: Call
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    """What the model may ask to be called."""
    may_call: bool = True
    """False where the model is to answer now, although it has tools."""
    prompt_ids: tuple[int, ...] = ()
    style: Style = "chat"
    """Whether messages are read through the chat template, or as plain text to go on with."""
    prefix: str = ""
    """The beginning of the answer, which is given and not drawn; the action's text holds it."""
    sampling: Sampling = Sampling()
    adapter: str | None = None
    """A LoRA adapter's folder, or its name where the engine already holds it."""
    seed: int = Field(default=0, ge=0)
    """The same request with the same seed in the same batch gives the same tokens."""


Batching = Literal["static", "continuous"]

Progress = Callable[[Request, int, str], None]
"""Called with a request, its new tokens so far, and the text that they add ("" where unknown)."""


@runtime_checkable
class Model(Protocol):
    """An engine with a model in it.

    `batching` tells the runtime when to dispatch. A `static` engine takes a batch as a whole,
    so the runtime waits until no more requests can come; a `continuous` one takes requests at
    any time and is called at once.

    `generate` returns one action for each request, in order. A request that cannot be answered
    gives an action with a `failure`; trouble that concerns them all raises `ModelError`. When
    the call is cancelled the engine stops within two seconds.
    """

    @property
    def name(self) -> str: ...

    @property
    def batching(self) -> Batching: ...

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]: ...

    async def aclose(self) -> None: ...


Answered = Callable[[int, Action], None]
"""Called with the position of a request and its action."""


@runtime_checkable
class AnswersEach(Protocol):
    """A static engine whose actions are not all complete at the same time.

    The runtime judges and records what is complete while the rest of the batch is generated.
    """

    async def answer_each(
        self, requests: Sequence[Request], answered: Answered, progress: Progress | None = None
    ) -> None:
        """As `generate`, but each action is handed to `answered` as soon as it is complete."""


@runtime_checkable
class ChecksSettings(Protocol):
    """A model that cannot follow every setting."""

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Raise RecipeError for settings that this engine cannot follow; before any work."""


@runtime_checkable
class OpensEarly(Protocol):
    """A model that can be opened before anybody asks, so that no episode waits for it."""

    async def open_early(self, adapter: str | None = None) -> None:
        """Load the weights, or start or reach what holds them, and an adapter's too.

        Raises ModelUnavailable or ModelTimeout for what cannot be had, ModelError for an adapter
        that does not fit.
        """


@runtime_checkable
class ChecksUse(Protocol):
    """A model that knows how it was meant to be used."""

    def verify(self) -> None:
        """Raise ModelError when it was used otherwise; at the end of a run without errors."""


Write = Callable[[Path], None]
"""Writes an adapter in PEFT's format into a folder."""


@runtime_checkable
class RolloutEngine(Protocol):
    """A model that samples for a trainer which holds weights of its own."""

    async def publish(self, adapters: Mapping[str, Write], version: int) -> None:
        """Answer by these adapters, under their names, from the next request on.

        Responses under way end as they began. Actions by these adapters say `version`.
        """

    async def sleep(self) -> None:
        """Give memory back until the next request, where that is possible."""


class SamplerReport(Record):
    """How an engine of several servers was loaded since the last report."""

    metrics: dict[str, float] = {}
    """By server's place from 1 and what was seen, such as `2/waiting`."""
    warnings: tuple[str, ...] = ()
    """What went wrong and was mended, in plain words."""


@runtime_checkable
class ReportsLoad(Protocol):
    """A model that tells of its load."""

    async def report(self) -> SamplerReport:
        """What was seen since the last report."""


class Capabilities(Record):
    """What an engine offers beyond answers. `collab models --check` holds it to each."""

    tokens: bool = False
    """Actions carry their token ids, a log-probability for each, and the prompt's token ids."""
    seeds: bool = False
    """The same batch with the same seeds gives the same tokens."""
    adapters: bool = False
    """A request may name a LoRA adapter, and a batch several; others are refused."""
    context: int | None = None
    """The most tokens that a prompt and its answer may take; None where that is not known."""
    continues: bool = False
    """A request may give the answer's beginning, and take messages as plain text to go on with."""
    generates: bool = True
    """False for answers prepared beforehand, which no setting, adapter or context can change."""


@runtime_checkable
class HasCapabilities(Protocol):
    """A model that says what it offers; others promise answers only."""

    @property
    def capabilities(self) -> Capabilities: ...
