"""Runs vLLM on this machine: the engine has its own processes, started and driven from here."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakSet

from collab.distribution import install_command
from collab.errors import CollabError, ModelError, ModelUnavailable
from collab.models.base import SamplerReport
from collab.models.vllm.adapter_store import Version
from collab.models.vllm.backend import Capacity, Completion, GenerationRequest, time_limit
from collab.models.vllm.calls import (
    append_delta,
    engine_options,
    restore_settings,
    sampling_params,
    start_environment,
)
from collab.recipe.model import VLLMSpec

DEFAULT_VARIABLES = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "OMP_WAIT_POLICY": "PASSIVE",
}
"""Default environment variables. They set vLLM's log level and usage reports, start processes
without CUDA state from this one, and share the processors with the trainer.
"""


def environment_of(spec: VLLMSpec) -> dict[str, str]:
    """Return the environment variables that vLLM's processes get, unless the user has set them."""
    ready = {"VLLM_ENGINE_READY_TIMEOUT_S": str(max(int(spec.ready_seconds), 1))}
    same_in_any_batch = {"VLLM_BATCH_INVARIANT": "1"} if spec.deterministic else {}
    return {**DEFAULT_VARIABLES, **ready, **same_in_any_batch}


class EngineDied(ModelError):
    """The engine's processes have ended."""


_LOCAL_ENGINES: WeakSet[Process] = WeakSet()
"""Engines of this process, which share one GPU."""


class Process:
    """One engine, restarted if it has died or if an adapter needs more capacity."""

    context: int
    """Maximum number of tokens of a prompt and its response together, known once it is open."""

    def __init__(self, spec: VLLMSpec) -> None:
        """Prepare the process.

        Raises:
            ModelUnavailable: vLLM is not installed.
        """
        if find_spec("vllm") is None:
            raise ModelUnavailable(
                f"model {spec.name!r} needs vLLM, which is not installed:"
                f" {install_command('vllm')}, or use `servers` that run it"
            )
        self._spec = spec
        self._llm: Any = None
        self._folder = Path()
        self._capacity = Capacity()
        self._loaded: dict[int, Any] = {}
        self._is_asleep = False
        self._state_lock = asyncio.Lock()
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._request_numbers = count()
        _LOCAL_ENGINES.add(self)

    @property
    def wants_zero_adapter(self) -> bool:
        """True on a CPU, where vLLM's kernels apply the last adapter to requests without one."""
        import torch

        return not torch.cuda.is_available()

    async def open(self, folder: Path, capacity: Capacity) -> None:
        """Start the engine, or wake it up, with room for the adapters of `capacity`."""
        async with self._state_lock:
            if self._llm is not None and (self._llm.errored or not self._fits(capacity)):
                await self._idle.wait()
                self._stop()
            if self._llm is None:
                await self._start(folder, capacity)
            if self._is_asleep:
                async with time_limit(self._peer, self._spec.ready_seconds):
                    await self._llm.wake_up()
                self._is_asleep = False

    async def complete(self, request: GenerationRequest) -> Completion:
        try:
            return await self._complete(request)
        except EngineDied:
            await self.open(self._folder, self._capacity)
            return await self._complete(request)

    async def _complete(self, request: GenerationRequest) -> Completion:
        from vllm import TokensPrompt

        completion = Completion()
        params = sampling_params(request)
        async with self._use_engine() as llm, time_limit(self._peer, self._spec.seconds):
            adapter = await self._adapter(request.adapter)
            outputs = llm.generate(
                TokensPrompt(prompt_token_ids=request.token_ids),
                params,
                str(next(self._request_numbers)),
                lora_request=adapter,
            )
            async for output in outputs:
                append_delta(completion, output, request)
        if completion.finish_reason == "failed":
            raise ModelError(f"{self._peer} dropped a response")
        return completion

    async def load(self, version: Version) -> None:
        async with self._use_engine(), time_limit(self._peer, self._spec.seconds):
            await self._adapter(version)

    async def unload(self, version: Version) -> None:
        if self._loaded.pop(version.number, None) is not None:
            async with self._use_engine() as llm, time_limit(self._peer, self._spec.seconds):
                await llm.remove_lora(version.number)

    async def report(self) -> SamplerReport:
        """Return an empty report, because the load of a local engine is not measured."""
        return SamplerReport()

    async def sleep(self) -> None:
        async with self._state_lock:
            if self._llm is not None and not self._is_asleep and self._must_sleep(self._capacity):
                await self._idle.wait()
                async with time_limit(self._peer, self._spec.ready_seconds):
                    await self._llm.sleep(level=1)
                self._is_asleep = True

    async def aclose(self) -> None:
        _LOCAL_ENGINES.discard(self)
        self._stop()

    @property
    def _peer(self) -> str:
        return f"vLLM's engine with {self._spec.name!r}"

    def _fits(self, capacity: Capacity) -> bool:
        """Return True if the engine can serve `capacity`. Additional adapters take turns."""
        ready = capacity.rank <= self._capacity.rank
        return ready and self._must_sleep(capacity) == self._must_sleep(self._capacity)

    def _must_sleep(self, capacity: Capacity) -> bool:
        """Return True if the engine is to sleep, or raise ModelUnavailable if it cannot."""
        import torch

        if self._spec.sleep and not torch.cuda.is_available():
            raise ModelUnavailable(
                f"{self._peer} cannot sleep: vLLM releases memory on CUDA devices only; remove the"
                " model's option sleep"
            )
        return bool(self._spec.sleep) and capacity.training

    async def _start(self, folder: Path, capacity: Capacity) -> None:
        """Start the engine, and block until it is ready, because it accepts no request earlier."""
        for name, value in environment_of(self._spec).items():
            os.environ.setdefault(name, value)
        spec = self._spec.divide_memory(len(_LOCAL_ENGINES))
        options = engine_options(spec, folder, capacity, sleep=self._must_sleep(capacity))
        try:
            with start_environment(), restore_settings():
                from vllm.engine.arg_utils import AsyncEngineArgs
                from vllm.usage.usage_lib import UsageContext
                from vllm.v1.engine.async_llm import AsyncLLM
            with start_environment():
                # The batch sizes of `vllm.LLM`, which are chosen for throughput.
                sizes = UsageContext.LLM_CLASS
                args = AsyncEngineArgs(**options)
                llm = AsyncLLM.from_engine_args(args, usage_context=sizes)
            if hasattr(os, "pidfd_open"):  # Linux
                await llm.collective_rpc("follow", args=(os.getpid(),))
        except Exception as error:
            raise ModelUnavailable(
                f"{self._peer} did not start within {self._spec.ready_seconds:g} s or failed:"
                f" {error} If memory is short, set the model's kv_cache_gb or its context, or"
                f" change its memory_share, now {spec.memory_share:g}"
            ) from error
        self._llm, self._folder, self._capacity = llm, folder, capacity
        self.context = int(llm.model_config.max_model_len)

    def _stop(self) -> None:
        llm, self._llm = self._llm, None
        self._loaded.clear()
        self._is_asleep = False
        if llm is not None:
            llm.shutdown()
            del llm
            gc.collect()  # vLLM's finalizer fails if it runs when Python exits

    async def _adapter(self, version: Version | None) -> Any:
        """Return vLLM's name for an adapter, loaded first, because a later failure would end
        vLLM."""
        if version is None:
            return None
        if version.number not in self._loaded:
            from vllm.lora.request import LoRARequest

            request = LoRARequest(version.name, version.number, str(version.folder))
            await self._llm.add_lora(request)
            self._loaded[version.number] = request
        return self._loaded[version.number]

    @asynccontextmanager
    async def _use_engine(self) -> AsyncIterator[Any]:
        """Yield the engine and keep it running meanwhile. vLLM's errors become collab's errors."""
        async with self._state_lock:
            llm = self._llm
            if llm is None:
                raise EngineDied(f"{self._peer} is not running")
            self._in_flight += 1
            self._idle.clear()
        try:
            yield llm
        except CollabError:
            raise
        except Exception as error:
            reason = error.__cause__ or error
            if llm.errored:
                raise EngineDied(f"{self._peer} has died: {reason}") from error
            raise ModelError(f"{self._peer} failed: {type(reason).__name__}: {reason}") from error
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()
