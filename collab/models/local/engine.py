"""Local models, run by transformers on CPU or CUDA: static batches with several adapters.

All torch work happens on one thread of the engine, so the event loop stays responsive and calls
queue up. The model's chat template turns messages into tokens. All requests of a call go into one
left-padded batch, regardless of agent, sampling settings or adapter. It is split only if it
exceeds `batch_tokens` or runs out of memory. Finished rows leave the batch once an eighth of them
have ended, or half where decoding is a CUDA graph.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from collab.errors import ModelError, ModelUnavailable
from collab.models import store
from collab.models.base import Batching, Capabilities, Model, OnAnswer, Progress, Request
from collab.recipe.model import TransformersSpec
from collab.records import Action
from collab.threads import wait_for_job

if TYPE_CHECKING:
    from collab.models.local.generation import Generation, ReportBatch
    from collab.models.weights import LoadedModel


class TransformersEngine(Model):
    """A model in this process, loaded at first use or by `load`.

    A trainer shares the weights: `module` is the causal language model, or the PeftModel around it,
    and may be updated in place or replaced between calls. Adapters that it adds to `module` answer
    requests by their names.

    An action's `logprobs` are those of the distribution that its tokens were drawn from: after
    temperature, top_k and top_p, in this order. At temperature 0 they are those of temperature 1.
    """

    batching: Batching = "static"

    def __init__(
        self, spec: TransformersSpec, *, progress: store.StoreProgress = store.ignore_progress
    ) -> None:
        """Check the name without downloading anything.

        Raises:
            UnknownName, ModelUnavailable: the name is invalid.
        """
        store.check_name(spec.name, spec.revision)
        self.spec = spec
        self.name = spec.name
        self._progress = progress
        self._lock = Lock()
        self._generation: Generation | None = None
        self._is_closed = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"model {spec.name}")

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Capabilities of the engine. `context` is None until the model is loaded."""
        context = self._generation.loaded.context if self._generation else None
        return Capabilities(tokens=True, seeds=True, adapters=True, continues=True, context=context)

    @property
    def module(self) -> Any:
        """The language model, loaded if necessary."""
        return self.load().module

    @module.setter
    def module(self, module: Any) -> None:
        self.load().module = module

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer. This loads the model if necessary."""
        return self.load().tokenizer

    def load(self) -> LoadedModel:
        """Return the model, downloaded and loaded on first use. The call blocks until done.

        Raises:
            ModelUnavailable: the model cannot be downloaded or loaded.
            ModelTimeout: the download stalls.
            ModelError: the model does not fit into memory.
        """
        return self._load(self._progress).loaded

    def load_adapter(self, adapter: str) -> str:
        """Load an adapter from its folder, unless it is loaded, and return its name in `module`.

        Raises:
            ModelError: `adapter` is not an adapter's folder, or does not fit the model.
        """
        return self._load(self._progress).adapters.name_of(adapter)

    async def open_early(self, adapter: str | None = None) -> None:
        """Load the model, and the adapter in a folder, on the engine's thread."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self.load)
        if adapter is not None:
            await loop.run_in_executor(self._thread, self.load_adapter, adapter)

    def _load(self, progress: store.StoreProgress) -> Generation:
        from collab.models.local.generation import Generation
        from collab.models.weights import load_model

        with self._lock:
            if self._generation is None:
                folder = store.resolve(self.spec.name, self.spec.revision, progress)
                progress("loading", 0, 0)
                self._generation = Generation(load_model(folder, self.spec), self.spec)
            return self._generation

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Answer `requests` in one batch. Cancellation takes effect before the next layer."""
        actions: dict[int, Action] = {}
        await self.answer_each(requests, actions.__setitem__, progress)
        return [actions[index] for index in range(len(requests))]

    async def answer_each(
        self, requests: Sequence[Request], answered: OnAnswer, progress: Progress | None = None
    ) -> None:
        """Answer `requests` in one batch, each when its row ends."""
        loop = asyncio.get_running_loop()
        cancelled = Event()

        def deliver_action(index: int, action: Action) -> None:
            loop.call_soon_threadsafe(answered, index, action)

        report = _reporter(loop, progress) if progress else None
        if self._is_closed:
            raise self._closed_error()
        queued = self._thread.submit(
            self._answer, requests, deliver_action, time.monotonic(), cancelled, report
        )
        await wait_for_job(queued, cancelled.set)
        if queued.cancelled():  # by `aclose`, not by whoever waits
            raise self._closed_error()
        queued.result()

    def _answer(
        self,
        requests: Sequence[Request],
        answered: OnAnswer,
        started: float,
        cancelled: Event,
        report: ReportBatch | None,
    ) -> None:
        def progress(stage: str, done: int, total: int) -> None:
            if cancelled.is_set():
                raise ModelError(f"model {self.name!r} was not loaded: the request was canceled")
            self._progress(stage, done, total)

        self._load(progress).answer(requests, answered, started, cancelled, report)

    async def aclose(self) -> None:
        """Release the model's memory. Calls that have not started raise ModelUnavailable."""
        self._is_closed = True
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        self._generation = None

    def _closed_error(self) -> ModelUnavailable:
        return ModelUnavailable(f"model {self.name!r} is closed; open it again")


def _reporter(loop: asyncio.AbstractEventLoop, progress: Progress) -> ReportBatch:
    """Pass reports from the engine's thread to the event loop."""

    def deliver(reports: list[tuple[Request, int, str]]) -> None:
        for request, n_tokens, text in reports:
            progress(request, n_tokens, text)

    def report(reports: list[tuple[Request, int, str]]) -> None:
        loop.call_soon_threadsafe(deliver, reports)

    return report
