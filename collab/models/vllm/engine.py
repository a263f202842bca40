"""Local models, run by vLLM: requests of all agents and episodes in one continuous batch.

Prompts go in and responses come out as token ids, with the chat template and the tokenizer of the
trainer. vLLM reads adapters from folders. A trainer that runs alongside publishes new versions
under the old name, by `publish`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.errors import CollabError, RecipeError
from collab.models import chat, store
from collab.models.base import (
    AdapterWriter,
    Batching,
    Capabilities,
    Model,
    Progress,
    Request,
    SamplerReport,
)
from collab.models.loop_thread import LoopThread
from collab.models.vllm.adapter_store import Version
from collab.models.vllm.adapters import ServedAdapters
from collab.models.vllm.backend import GenerationRequest, ReportText, prefix_key
from collab.recipe.model import VLLMSpec
from collab.records import Action, Sampling

if TYPE_CHECKING:
    from collab.models.vllm.process import Process
    from collab.models.vllm.servers import Servers


@dataclass(frozen=True)
class ModelInfo:
    """Tokenizer and limits of a model that runs in another process."""

    tokenizer: Any
    stop_ids: list[int]
    """Tokens that end a response."""
    context: int
    """Maximum number of tokens of prompt and response together."""
    folder: Path


def load_model_info(folder: Path, name: str) -> ModelInfo:
    """Return the tokenizer and the limits of the model in `folder`.

    Raises:
        ModelUnavailable: `folder` contains no model.
    """
    from collab.models.weights import context_of, load_config, load_errors, load_tokenizer, stop_ids

    store.read_config(folder, name)
    with load_errors(name, folder):
        from transformers import GenerationConfig

        tokenizer, config = load_tokenizer(folder), load_config(folder)
        if (folder / "generation_config.json").is_file():
            generation = GenerationConfig.from_pretrained(folder, local_files_only=True)
        else:
            generation = GenerationConfig.from_model_config(config)
    return ModelInfo(
        tokenizer=tokenizer,
        stop_ids=sorted(stop_ids(generation, tokenizer)),
        context=context_of(config),
        folder=folder,
    )


MIN_TEMPERATURE, MAX_TEMPERATURE = 0.01, 2.0
"""Temperature bounds. vLLM raises temperatures between 0 and the lower bound to it, and refuses
those above the upper bound.
"""


class VLLMEngine(Model):
    """A model run by vLLM. At first use, the engine is started or the servers are contacted.

    An action's `logprobs` are those of the distribution that its tokens were drawn from: after
    temperature, top_k and top_p, in this order. At temperature 0 they are those of temperature 1.
    """

    batching: Batching = "continuous"
    has_own_weights = True

    def __init__(
        self, spec: VLLMSpec, *, progress: store.StoreProgress = store.ignore_progress
    ) -> None:
        """Check the model without starting anything.

        Raises:
            UnknownName, ModelUnavailable: the model cannot work.
        """
        store.check_name(spec.name, spec.revision)
        self.spec = spec
        self.name = f"vllm:{spec.name}"
        self.capabilities = Capabilities(
            tokens=True, seeds=spec.is_seeded, adapters=True, continues=True
        )
        self._progress = progress
        self._backend = _backend_of(spec)
        self._adapters = ServedAdapters(spec.adapter_folder)
        self._open_lock = asyncio.Lock()
        self._open_failures = 0
        """Number of failed attempts to open the engine."""
        self._open_error: CollabError | None = None
        """Reason for the last failed attempt."""
        self._info: ModelInfo | None = None
        self._thread = LoopThread(self.name)

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer. It is available once the engine has been used."""
        return self._info.tokenizer if self._info else None

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Check that vLLM supports the settings, and reserve capacity for the adapter."""
        if sampling.temperature and not MIN_TEMPERATURE <= sampling.temperature <= MAX_TEMPERATURE:
            raise RecipeError(
                f"vLLM samples at temperature 0 or from {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g},"
                f" not at {sampling.temperature:g}; set sampling.temperature to one of these"
            )
        if adapter is not None:
            self._adapters.expect(adapter)

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Send `requests` concurrently. A failure concerns one request only."""
        report = _reporter(asyncio.get_running_loop(), progress) if progress else None
        return await self._thread.run(self._answer_all(requests, report))

    async def open_early(self, adapter: str | None = None) -> None:
        """Start the engine, or connect to the servers. Reserve memory for `adapter`."""
        if adapter is not None:
            self._adapters.expect(adapter)
        await self._thread.run(self._open())

    async def publish(self, adapters: Mapping[str, AdapterWriter], version: int) -> None:
        """Serve the adapters that `adapters` write. The call returns when every replica holds them,
        and all requests to the earlier versions are answered.
        """
        await self._thread.run(self._publish(adapters, version))

    async def report(self) -> SamplerReport:
        """Return the load of the servers since the last report, empty for a local engine."""
        return await self._thread.run(self._backend.report())

    async def sleep(self) -> None:
        """Release the GPU's memory until the next request, if the engine can sleep."""
        await self._thread.run(self._backend.sleep())

    async def aclose(self) -> None:
        """Stop the engine or close the connections. Requests in progress raise ModelUnavailable."""
        await asyncio.to_thread(self._thread.close, self._backend.aclose)
        self._adapters.close()

    async def _answer_all(
        self, requests: Sequence[Request], report: Progress | None
    ) -> list[Action]:
        for request in requests:
            with suppress(CollabError):  # raised again for the request itself
                self.check(request.sampling, request.adapter)
        info = await self._open()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._answer(r, info, report)) for r in requests]
        return [task.result() for task in tasks]

    async def _answer(self, request: Request, info: ModelInfo, report: Progress | None) -> Action:
        started = time.monotonic()
        try:
            self.check(request.sampling, None)
            prompt_ids = chat.prompt_ids(request, info.tokenizer, self.name)
            context = min(info.context, self._backend.context)
            new = request.sampling.max_new_tokens
            chat.check_context(len(prompt_ids), new, context, self.name)
            version = await self._version_for(request.adapter)
            with version.use() if version else nullcontext():
                await self._open()  # the adapter may need more capacity
                generation = GenerationRequest(
                    prompt_ids,
                    request.sampling,
                    request.seed if self.spec.is_seeded else None,
                    info.stop_ids,
                    version,
                    _report_of(request, report),
                    prefix_key(request.call, version.name if version else ""),
                )
                completion = await self._backend.complete(generation)
        except CollabError as error:
            return chat.failed_action(request, error, self.name, started)
        return chat.action_of(
            request,
            prompt_ids,
            completion.token_ids,
            completion.logprobs,
            completion.finish_reason,
            tokenizer=info.tokenizer,
            model=self.name,
            started=started,
            cached_tokens=completion.cached_tokens,
            version=version.step if version else None,
        )

    async def _open(self) -> ModelInfo:
        """Open the engine if needed. All callers that wait for an attempt share its failure."""
        failures = self._open_failures
        async with self._open_lock:
            if self._open_error and self._open_failures > failures:
                raise self._open_error
            try:
                if self._info is None:
                    self._info = await asyncio.to_thread(self._load_info)
                await self._backend.open(self._info.folder, self._adapters.capacity())
            except CollabError as error:
                self._open_failures, self._open_error = self._open_failures + 1, error
                raise
            return self._info

    def _load_info(self) -> ModelInfo:
        folder = store.resolve(self.spec.name, self.spec.revision, self._progress)
        self._progress("loading", 0, 0)
        return load_model_info(folder, self.spec.name)

    async def _version_for(self, adapter: str | None) -> Version | None:
        if adapter is not None:
            return await self._adapters.find(adapter)
        return await self._adapters.zero_adapter() if self._backend.wants_zero_adapter else None

    async def _publish(self, adapters: Mapping[str, AdapterWriter], version: int) -> None:
        self._adapters.training = True
        changes = [
            await self._adapters.publish(name, write, version) for name, write in adapters.items()
        ]
        await self._open()
        for published, before in changes:
            await self._backend.load(published)
            if before is not None:
                await before.idle.wait()
                await self._backend.unload(before)
                before.delete()


def _backend_of(spec: VLLMSpec) -> Process | Servers:
    if spec.servers:
        from collab.models.vllm.servers import Servers

        return Servers(spec)
    from collab.models.vllm.process import Process

    return Process(spec)


def _reporter(loop: asyncio.AbstractEventLoop, progress: Progress) -> Progress:
    """Forward reports from the engine's event loop to the caller's."""

    def report(request: Request, n_tokens: int, text: str) -> None:
        loop.call_soon_threadsafe(progress, request, n_tokens, text)

    return report


def _report_of(request: Request, progress: Progress | None) -> ReportText | None:
    if progress is None:
        return None
    prefix = request.prefix

    def report(n_tokens: int, text: str) -> None:
        nonlocal prefix
        progress(request, n_tokens, prefix + text)
        prefix = ""

    return report
