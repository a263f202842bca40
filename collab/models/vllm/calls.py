"""Translates collab's terms to vLLM's: engine options, sampling settings and outputs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import randbelow
from typing import Any

from collab.errors import ModelUnavailable
from collab.models.local.dimensions import key_values_of
from collab.models.vllm.adapter_files import served_rank
from collab.models.vllm.backend import FINISH_REASONS, Capacity, Completion, GenerationRequest
from collab.recipe.model import VLLMSpec

CACHED_RESPONSES = 64
"""Number of responses of full context that fit into the cache. vLLM queues the others."""
CPU_BLOCK_TOKENS = 128
"""Number of tokens that vLLM caches together on a CPU."""
GB = 10**9


def cache_bytes(spec: VLLMSpec, folder: Path, width: int) -> int:
    """Return the bytes of the cache for the model in `folder`, with values of `width` bytes.

    This is `kv_cache_gb` if set, otherwise room for `CACHED_RESPONSES` responses, within
    `memory_share` of the free memory.

    Raises:
        ModelUnavailable: not even one response of the context fits. The message gives the needed
            and the free memory.
    """
    import psutil

    from collab.models.weights import load_config

    config = load_config(folder).get_text_config()
    context = spec.context or int(config.max_position_embeddings)
    token = config.num_hidden_layers * key_values_of(config) * width
    row = (-(-context // CPU_BLOCK_TOKENS) + 1) * CPU_BLOCK_TOKENS * token
    free = int(psutil.virtual_memory().available)
    wanted = spec.kv_cache_gb
    limit = int(wanted * GB) if wanted else int(free * spec.memory_share)
    if row <= limit <= free:
        return limit if wanted else min(CACHED_RESPONSES * row, limit)
    setting = f"kv_cache_gb is {wanted:g}" if wanted else f"memory_share is {spec.memory_share:g}"
    raise ModelUnavailable(
        f"vLLM's cache for {spec.name!r} takes {row / GB:.3g} GB for one response of the context,"
        f" {context} tokens; {free / GB:.3g} GB are free, and {setting}; lower the model's context"
        " or kv_cache_gb, or free memory"
    )


SEED_LIMIT = 2**31
"""Upper bound of vLLM's seeds, exclusive."""
SPARE_ADAPTERS = 2
"""Number of adapters in addition to the team's: a new version before the old one is unloaded, and
one of zeros.
"""


def engine_options(
    spec: VLLMSpec, folder: Path, capacity: Capacity, *, sleep: bool
) -> dict[str, Any]:
    """Return the arguments of vLLM's engine for the model in `folder`."""
    import torch

    from collab.models.weights import pick_device, pick_dtype

    dtype = pick_dtype(spec.dtype, pick_device("auto"))
    options: dict[str, Any] = {
        "model": str(folder),
        "dtype": dtype,
        "max_model_len": spec.context,
        "gpu_memory_utilization": spec.memory_share,
        "enforce_eager": not torch.cuda.is_available(),
        "enable_sleep_mode": sleep,
        "tensor_parallel_size": spec.tensor_parallel,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        # vLLM's default is 0, with which every start and every server would draw the same numbers.
        "seed": randbelow(SEED_LIMIT),
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "worker_extension_cls": "collab.models.vllm.guard.Follower",
    }
    if spec.kv_cache_gb is not None:
        options["kv_cache_memory_bytes"] = int(spec.kv_cache_gb * GB)
    if not torch.cuda.is_available():
        options["kv_cache_memory_bytes"] = cache_bytes(spec, folder, dtype.itemsize)
        # If vLLM reads a prompt in parts, it rewinds the random generator of a seeded request. A
        # CPU's generator cannot do this, and the engine would crash.
        options["enable_chunked_prefill"] = False
    if capacity.rank:
        options |= {
            "enable_lora": True,
            "max_loras": capacity.adapters + SPARE_ADAPTERS,
            "max_lora_rank": served_rank(capacity.rank),
        }
    return options


def sampling_params(request: GenerationRequest) -> Any:
    """Return vLLM's sampling parameters for a request."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        **request.settings,
        detokenize=bool(request.sampling.stop or request.report),
        output_kind=RequestOutputKind.DELTA if request.report else RequestOutputKind.FINAL_ONLY,
    )


def append_delta(completion: Completion, output: Any, request: GenerationRequest) -> None:
    """Append the new tokens and text of one vLLM output to a response."""
    (part,) = output.outputs
    completion.token_ids += part.token_ids
    pairs = zip(part.token_ids, part.logprobs, strict=True)
    completion.logprobs += [step[token].logprob for token, step in pairs]
    completion.cached_tokens = max(completion.cached_tokens, output.num_cached_tokens or 0)
    if output.finished:
        completion.finish_reason = FINISH_REASONS.get(part.finish_reason, "failed")
    if request.report:
        request.report(len(completion.token_ids), part.text)


START_ENVIRONMENT = {
    "PYTHONSAFEPATH": "1",
    "PYTHONWARNINGS": "ignore::UserWarning:multiprocessing.resource_tracker",
}
"""Environment variables while processes start: no module comes from the current folder, and
Python's resource tracker does not warn."""


@contextmanager
def start_environment() -> Iterator[None]:
    """Context manager that sets `START_ENVIRONMENT`, and hides warnings of vLLM's dependencies."""
    kept = {name: os.environ.get(name) for name in START_ENVIRONMENT}
    os.environ.update(START_ENVIRONMENT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, value in kept.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@contextmanager
def restore_settings() -> Iterator[None]:
    """Context manager that restores the settings of torch's compiler and of NCCL at exit, after an
    import of vLLM.

    Processes that vLLM starts import vLLM themselves, and keep vLLM's settings.
    """
    from torch._inductor import config

    kept = dict(os.environ)
    try:
        with config.patch(compile_threads=config.compile_threads):
            yield
    finally:
        for name in os.environ.keys() - kept.keys():
            del os.environ[name]
        os.environ.update(kept)
