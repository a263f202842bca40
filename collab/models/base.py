"""The interface shared by all engines: a batch of requests in, one action per request out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from pydantic import Field

from collab.errors import ModelError
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


OnAnswer = Callable[[int, Action], None]
"""Called with the position of a request and its action."""


AdapterWriter = Callable[[Path], None]
"""Writes an adapter in PEFT's format into a folder."""


class SamplerReport(Record):
    """The load of an engine's servers since the last report."""

    metrics: dict[str, float] = {}
    """Metrics by server number, from 1, and name, such as `2/waiting`."""
    warnings: tuple[str, ...] = ()
    """Problems that the engine has recovered from, in plain words."""


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


class Model:
    """A model with the engine that runs it. An engine defines `name`, `batching` and `generate`;
    the other parts have defaults.

    `batching` says when the runtime may dispatch requests. A `static` engine takes a whole batch,
    so the runtime waits until no more requests can come. A `continuous` engine takes requests at
    any time and is called at once.
    """

    name: str
    batching: Batching
    capabilities: Capabilities = Capabilities()
    has_own_weights: bool = False
    """True if the engine samples with its own copy of the weights, which a trainer has to renew."""

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Return one action per request, in order.

        If a request cannot be answered, its action has a `failure`. An error that affects all
        requests raises `ModelError`. When the call is canceled, the engine stops within
        `STOP_SECONDS`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `generate`")

    async def answer_each(
        self, requests: Sequence[Request], answered: OnAnswer, progress: Progress | None = None
    ) -> None:
        """Answer the requests, and pass each action to `answered` as soon as it is complete.

        The runtime then scores and records it while the rest is generated.
        """
        actions = await self.generate(requests, progress)
        if len(actions) != len(requests):
            counts = f"{len(requests)} requests returned {len(actions)} actions"
            raise ModelError(f"model {self.name!r} returned an invalid answer: {counts}")
        for index, action in enumerate(actions):
            answered(index, action)

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Check that this engine supports the settings, before any work.

        Raises:
            RecipeError: the engine does not support a setting, or the adapter.
        """

    async def open_early(self, adapter: str | None = None) -> None:
        """Prepare for the first request: load the weights, or reach the process that holds them,
        and load the adapter in the folder `adapter`.

        Raises:
            ModelUnavailable, ModelTimeout: the model cannot be reached.
            ModelError: an adapter does not fit.
        """

    async def publish(self, adapters: Mapping[str, AdapterWriter], version: int) -> None:
        """Use new versions of the adapters from the next request on.

        `adapters` maps each adapter's name to a function that writes it to a folder; it is empty if
        only frozen agents use the model. Responses in progress finish with the adapters they
        began with. Actions of the new adapters carry `version`.
        """

    async def sleep(self) -> None:
        """Release memory until the next request, if the engine can."""

    async def report(self) -> SamplerReport:
        """Return the load of the engine's servers since the last report."""
        return SamplerReport()

    def verify(self) -> None:
        """Check how the model was used, at the end of a run without errors.

        Raises:
            ModelError: the model was used otherwise than intended, e.g. a script has answers left.
        """

    async def aclose(self) -> None:
        """Stop the engine. A second call does nothing."""


_engine_models: WeakValueDictionary[int, Model] = WeakValueDictionary()
"""Models in use that `as_model` has returned, by the ids of the engines."""


def as_model(engine: Any) -> Model:
    """Return the engine as a `Model`, with the default of each part that its class lacks.

    An engine always gives the same model, so agents with the same engine share its batches.
    """
    if isinstance(engine, Model):
        return engine
    return _engine_models.setdefault(id(engine), _EngineModel(engine))


class _EngineModel(Model):
    """A model whose class has another base, with the defaults of the parts that it lacks."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @property
    def has_own_weights(self) -> bool:  # type: ignore[override]
        return all(hasattr(self._engine, part) for part in ("publish", "sleep"))

    def __getattribute__(self, name: str) -> Any:
        """Return the engine's present value of an attribute, or else the default."""
        if name.startswith("_") or (hasattr(Model, name) and not hasattr(self._engine, name)):
            return super().__getattribute__(name)
        return getattr(self._engine, name)
