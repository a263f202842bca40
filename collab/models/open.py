"""Opens engines from a recipe's model settings."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from logging import getLogger
from types import TracebackType
from typing import Any, Self, assert_never, get_args

from collab.errors import CollabError, ModelUnavailable, format_error
from collab.models import fakes
from collab.models.base import Batching, Model, as_model
from collab.models.store import StoreProgress
from collab.plugins import check_call, find_function
from collab.recipe.hosted import AnthropicSpec, HostedSpec, OpenAISpec
from collab.recipe.model import (
    EchoSpec,
    ModelSpec,
    PluginSpec,
    ReplaySpec,
    ScriptedSpec,
    TransformersSpec,
    VLLMSpec,
)


def log_downloads(name: str) -> StoreProgress:
    """Return a callback that logs each stage of a model's download once."""
    logged = {"loading"}

    def log(stage: str, _done: int, total: int) -> None:
        if stage not in logged:
            logged.add(stage)
            size = f", {total / 1e6:,.0f} MB" if total else ""
            getLogger("collab.models").warning("%s: %s%s", name, stage, size)

    return log


def open_model(spec: ModelSpec, *, progress: StoreProgress | None = None) -> Model:
    """Return the engine that `spec` describes, ready for requests. Weights are loaded at first use.

    `progress` is called for downloads and conversions, on the thread that does them.

    Raises:
        RecipeError, ModelUnavailable, RecordError: the engine cannot work. Nothing is loaded yet.
    """
    match spec:
        case TransformersSpec():
            _let_waiting_threads_sleep()
            from collab.models.local.engine import TransformersEngine
            from collab.models.local.fast.memory import limit_compiled_products

            if spec.fast:
                limit_compiled_products()
            return TransformersEngine(spec, progress=progress or log_downloads(spec.name))
        case VLLMSpec():
            _let_waiting_threads_sleep()
            from collab.models.vllm.engine import VLLMEngine

            return VLLMEngine(spec, progress=progress or log_downloads(spec.name))
        case AnthropicSpec():
            from collab.models.hosted.anthropic_engine import AnthropicEngine

            return AnthropicEngine(spec)
        case OpenAISpec():
            from collab.models.hosted.openai_engine import OpenAIEngine

            return OpenAIEngine(spec)
        case ScriptedSpec() | EchoSpec() | ReplaySpec():
            return _open_fake(spec)
        case PluginSpec():
            return _open_plugin(spec)
        case _:
            assert_never(spec)


def _open_fake(spec: ScriptedSpec | EchoSpec | ReplaySpec) -> Model:
    match spec:
        case ScriptedSpec():
            return fakes.ScriptedModel.from_file(spec.name)
        case EchoSpec():
            return fakes.EchoModel(spec.name)
        case ReplaySpec():
            return fakes.ReplayModel(spec.name)


def _let_waiting_threads_sleep() -> None:
    """Limit how long OpenMP's idle threads spin. Call this before importing torch.

    Threads that spin for milliseconds make a run several times slower if another one runs at the
    same time. Threads that sleep at once make a single run a quarter slower, because waking takes
    as long as a small product. They therefore spin for some microseconds, if the library has this
    setting.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


class ModelPool:
    """Opens each distinct model once, so equal specs share memory, and closes all models.

    After a run without errors, it also checks how the models were used (`verify`).
    """

    def __init__(self, *, progress: StoreProgress | None = None) -> None:
        self._progress = progress
        self._models: dict[str, Model] = {}

    def open(self, spec: ModelSpec) -> Model:
        """Return the model for `spec`, opened now or earlier.

        Raises:
            RecipeError, ModelUnavailable, RecordError: the model cannot work.
        """
        if (key := _key(spec)) not in self._models:
            self._models[key] = open_model(spec, progress=self._progress)
        return self._models[key]

    def share(self, spec: ModelSpec, model: Model) -> None:
        """Use the open `model` if `spec` is a service, so its limits hold for all who ask it."""
        if isinstance(spec, HostedSpec):
            self._models[_key(spec)] = model

    async def load(self) -> None:
        """Load the weights and adapters of every open model.

        Raises:
            ModelUnavailable, ModelError: a model cannot be loaded.
        """
        for model in self._models.values():
            await model.open_early()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
        if kind is None:
            self.verify()

    def verify(self) -> None:
        """Check that the models were used as intended, at the end of a run without errors.

        Raises:
            ModelError: a model was used otherwise, e.g. a script has answers left.
        """
        for model in self._models.values():
            model.verify()

    async def aclose(self) -> None:
        """Close every model, even if closing one of them fails."""
        async with AsyncExitStack() as stack:
            for model in self._models.values():
                stack.push_async_callback(model.aclose)


def _key(spec: ModelSpec) -> str:
    return f"{type(spec).__name__} {spec.model_dump_json()}"


_REQUIRED_PARTS = ("name", "batching", "generate")
"""The parts of an engine that have no default."""


def _defines(engine: Any, part: str) -> bool:
    """Return True if the engine defines the part itself, beyond what the base `Model` has."""
    inherited = getattr(type(engine), part, None) is getattr(Model, part, ())
    return hasattr(engine, part) and not inherited


def _open_plugin(spec: PluginSpec) -> Model:
    engine = f"model engine {spec.engine!r}"
    function = find_function("model", spec.engine, {})
    check_call(engine, function, ("spec",))
    try:
        model = function(spec)
    except CollabError:
        raise
    except Exception as error:
        raise ModelUnavailable(
            f"{engine} failed to open: {format_error(error)}; collab calls it with the model's spec"
            " (engine, name, options)"
        ) from error
    if missing := ", ".join(part for part in _REQUIRED_PARTS if not _defines(model, part)):
        raise ModelUnavailable(
            f"{engine} returned a {type(model).__name__} without {missing}; every engine needs"
            f" {', '.join(_REQUIRED_PARTS)}"
        )
    if model.batching not in get_args(Batching):
        raise ModelUnavailable(
            f"{engine} has batching {model.batching!r}; it is one of"
            f" {', '.join(get_args(Batching))}"
        )
    check_call(f"generate of {engine}", model.generate, ("requests", "progress"))
    if hasattr(model, "check"):
        check_call(f"check of {engine}", model.check, ("sampling", "adapter"))
    return as_model(model)
