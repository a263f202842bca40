"""The interface shared by all engines: a batch of requests in, one action per request out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from pydantic import Field

from collab.records import Action, Message, Record, Sampling, Style, ToolSpec


class Call(Record):
    """Identifies the decision that needs a response. Replays look up their answers by these
    fields."""

    task: str
    sample: int
    turn: int
    round: int
    agent: str
    step: int = 0
    """Index of the response within the agent's move, above 0 only with tools."""


class Request(Record):
    """A request for one response, with either `messages` or `prompt_ids`."""

    call: Call
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    """Tools that the model may call."""
    may_call: bool = True
    """False if the model must answer now, although it has tools."""
    prompt_ids: tuple[int, ...] = ()
    style: Style = "chat"
    """Format of the messages: the chat template, or plain text to continue."""
    prefix: str = ""
    """Fixed beginning of the answer. The action's text includes it."""
    sampling: Sampling = Sampling()
    adapter: str | None = None
    """Folder of a LoRA adapter, or its name if the engine already holds it."""
    seed: int = Field(default=0, ge=0)
    """Seed of the request. The same request and seed in the same batch give the same tokens."""


Batching = Literal["static", "continuous"]

Progress = Callable[[Request, int, str], None]
"""Called with a request, its new tokens so far, and the text that they add ("" if unknown)."""


STOP_SECONDS = 2.0
"""Seconds in which an engine stops after it was canceled or closed."""


@runtime_checkable
class Model(Protocol):
    """A model with the engine that runs it.

    `batching` says when the runtime may dispatch requests. A `static` engine takes a whole batch,
    so the runtime waits until no more requests can come. A `continuous` engine takes requests at
    any time and is called at once.

    `generate` returns one action per request, in order. If a request cannot be answered, its action
    has a `failure`. An error that affects all requests raises `ModelError`. When the call is
    canceled, the engine stops within `STOP_SECONDS`.
    """

    @property
    def name(self) -> str: ...

    @property
    def batching(self) -> Batching: ...

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Return one action per request, in order. See the class for failures."""

    async def aclose(self) -> None:
        """Stop the engine. A second call does nothing."""


Answered = Callable[[int, Action], None]
"""Called with the position of a request and its action."""


@runtime_checkable
class AnswersEach(Protocol):
    """A static engine that completes some actions before others.

    The runtime scores and records complete actions while the rest of the batch is generated.
    """

    async def answer_each(
        self, requests: Sequence[Request], answered: Answered, progress: Progress | None = None
    ) -> None:
        """Generate as `generate` does, but pass each action to `answered` as soon as it is
        complete."""


@runtime_checkable
class ChecksSettings(Protocol):
    """A model that supports only some settings, and can check them."""

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Check that this engine supports the settings, before any work.

        Raises:
            RecipeError: the engine does not support a setting, or the adapter.
        """


@runtime_checkable
class OpensEarly(Protocol):
    """A model that can be loaded before the first request, so no episode waits for it."""

    async def open_early(self, adapter: str | None = None) -> None:
        """Load the weights, or start or reach the process that holds them, and load an adapter.

        Raises:
            ModelUnavailable, ModelTimeout: the model cannot be reached.
            ModelError: an adapter does not fit.
        """


@runtime_checkable
class ChecksUse(Protocol):
    """A model that can check how it was used, such as a script, whose answers must all be used."""

    def verify(self) -> None:
        """Check how the model was used, at the end of a run without errors.

        Raises:
            ModelError: the model was used otherwise than intended, e.g. a script has answers left.
        """


Write = Callable[[Path], None]
"""Writes an adapter in PEFT's format into a folder."""


@runtime_checkable
class RolloutEngine(Protocol):
    """A model that samples for a trainer, but has a separate copy of the weights."""

    async def publish(self, adapters: Mapping[str, Write], version: int) -> None:
        """Use new versions of the adapters from the next request on.

        `adapters` maps each adapter's name to a function that writes it to a folder; it is empty if
        only frozen agents use the model. Responses in progress finish with the adapters they
        began with. Actions of the new adapters carry `version`.
        """

    async def sleep(self) -> None:
        """Release memory until the next request, if the engine can."""


class SamplerReport(Record):
    """The load of an engine's servers since the last report."""

    metrics: dict[str, float] = {}
    """Metrics by server number, from 1, and name, such as `2/waiting`."""
    warnings: tuple[str, ...] = ()
    """Problems that the engine has recovered from, in plain words."""


@runtime_checkable
class ReportsLoad(Protocol):
    """A model that reports its load."""

    async def report(self) -> SamplerReport:
        """Return the load of the engine's servers since the last report."""


class Capabilities(Record):
    """Capabilities of an engine beyond plain answers. `collab models --check` verifies each."""

    tokens: bool = False
    """Actions carry their token ids, a log-probability for each, and the prompt's token ids."""
    seeds: bool = False
    """The same batch with the same seeds gives the same tokens."""
    adapters: bool = False
    """A request may name a LoRA adapter, and a batch may use several. Other engines refuse
    adapters."""
    context: int | None = None
    """Maximum number of tokens of a prompt and its answer together, or None if unknown."""
    continues: bool = False
    """A request may set the beginning of the answer, and may pass plain text to continue."""
    generates: bool = True
    """False if answers are prepared and do not depend on settings, adapters or context."""


@runtime_checkable
class HasCapabilities(Protocol):
    """A model that declares its capabilities. A model without this interface only promises to
    answer."""

    @property
    def capabilities(self) -> Capabilities: ...


def capabilities_of(model: Model) -> Capabilities:
    """Return what the model declares, or the defaults if it declares nothing."""
    return model.capabilities if isinstance(model, HasCapabilities) else Capabilities()
