"""Steps of learning on samples that are made up, timed by options and by phases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, NamedTuple

import torch

from collab.models.local.dimensions import dimensions_of
from collab.models.local.multi_lora import unwrap
from collab.recipe import LoraSpec, TrainerSpec
from collab.records import Sampling
from collab.trainers.learner.device_sizes import learning_bytes
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.lora import add_adapter
from collab.trainers.learner.policy import Policies, Policy, disable_dropout
from collab.trainers.learner.prefix_tree.packing import pack_samples
from collab.trainers.learner.samples import Sample

GROUP = 8


class Load(NamedTuple):
    """The rows of a step: groups of eight responses to a prompt."""

    groups: int
    prompt: int
    response: int
    top_p: float = 1.0


def samples_of(load: Load, vocabulary: int) -> list[Sample]:
    drawn = torch.Generator().manual_seed(1)

    def tokens(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, vocabulary, (n,), generator=drawn).tolist())

    found, sampling = [], Sampling(top_p=load.top_p)
    for _ in range(load.groups):
        prompt, logprobs = tokens(load.prompt), (0.0,) * load.response
        found += [
            Sample("a", prompt, tokens(load.response), logprobs, sampling, weight, 1e-3)
            for weight in (1.0, -1.0) * (GROUP // 2)
        ]
    return found


def tree_tokens(samples: list[Sample], shared: bool) -> int:
    """Tokens that have to be computed once, without padding."""
    return sum(row.width for row in pack_samples(samples, 1 << 40, shared=shared))


def step_flops(module: Any, samples: list[Sample], tokens: int, *, twice: bool) -> float:
    """Count the products with weights: the head's for responses only, none of the embedding."""
    config = unwrap(module).config
    head = config.vocab_size * config.hidden_size
    tables = 1 if config.tie_word_embeddings else 2
    body = sum(p.numel() for p in module.parameters()) - tables * head
    responses = sum(len(sample.token_ids) for sample in samples)
    return float((6 if twice else 4) * body * tokens + 4 * head * responses)


@contextmanager
def learner_of(engine: Any, **options: Any) -> Iterator[Learner]:
    """A learner of one adapter under `options` of the trainer."""
    spec = TrainerSpec.model_validate({"steps": 100, "mismatch_tolerance": 1e9, **options})
    parameters = add_adapter(engine, "a", LoraSpec(), seed=0, start=None)
    policy = Policy("a", ("a",), engine, parameters, is_adapter=True)
    disable_dropout(engine.module)
    if spec.gradient_checkpointing is True:
        policy.enable_gradient_checkpointing()
    try:
        yield Learner(Policies({"a": policy}, {}), spec, total_steps=100)
    finally:
        engine.module = engine.module.unload()
        free(engine.load().device)


def free(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


PEAK_TERAFLOPS = {
    "B200": 2250,
    "H200": 989,
    "H100 PCIe": 756,
    "H100": 989,
    "A100": 312,
    "L40S": 362,
    "RTX A6000": 155,
    "RTX 5090": 209,
    "RTX 4090": 165,
    "RTX 3090": 71,
    "A10G": 70,
    "L4": 121,
}
"""Dense bfloat16 compute of GPUs, by words in torch's name for them. The first match counts."""


def share_of_peak(device: torch.device, flops: float) -> dict[str, float]:
    """The share of the maker's number, where the card is known."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    peak = next((peak for card, peak in PEAK_TERAFLOPS.items() if card in name), None)
    return {"of_peak": flops / (peak * 1e12)} if peak else {}


def measure(engine: Any, load: Load, steps: int, **options: Any) -> dict[str, Any]:
    """Tokens a second, peak memory and its plan, of `steps` after one that is not counted."""
    device = engine.load().device
    vocabulary = unwrap(engine.module).config.vocab_size
    samples = samples_of(load, vocabulary)
    with learner_of(engine, **options) as learner:
        policy = learner.policies.by_name["a"]
        sizes = learner._sizes.of(policy)
        held = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
        unallocated_bytes = sum(o.unallocated_bytes for o in learner.optimizers.values())
        started = time.perf_counter()
        learner.learn(samples, 0, Event())
        wait(device)
        first = time.perf_counter() - started
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        started = time.perf_counter()
        for step in range(1, steps + 1):
            learner.learn(samples, step, Event())
        wait(device)
        seconds = (time.perf_counter() - started) / steps
        shared = learner._sizes.can_share_rows(policy)
        tokens = tree_tokens(samples, shared)
        flops = step_flops(engine.module, samples, tokens, twice=sizes.gradient_checkpointing)
        found: dict[str, Any] = {
            "first_seconds": round(first, 3),
            "step_seconds": round(seconds, 4),
            "tokens": tokens,
            "tokens_per_second": round(tokens / seconds, 1),
            "flops_per_second": flops / seconds,
            **share_of_peak(device, flops / seconds),
            "micro_batch_tokens": sizes.micro_batch_tokens,
            "head_chunk_tokens": sizes.head_chunk_tokens,
            "gradient_checkpointing": sizes.gradient_checkpointing,
            "shared": shared,
        }
        if device.type == "cuda":
            model = unwrap(engine.module)
            shape = dimensions_of(model.config, model.dtype.itemsize)
            largest = min(tokens, sizes.micro_batch_tokens)
            twice = sizes.gradient_checkpointing
            chunk = sizes.head_chunk_tokens
            planned = learning_bytes(shape, largest, chunk, checkpointing=twice)
            found["peak_bytes"] = torch.cuda.max_memory_allocated(device)
            found["planned_bytes"] = held + unallocated_bytes + planned
        found["phases"] = phases(learner, samples, device)
    return found


def phases(learner: Learner, samples: list[Sample], device: torch.device) -> dict[str, float]:
    """Seconds of each phase of one step more, in which the host waits after each."""
    spent: dict[str, float] = {}
    optimizer = learner.optimizers["a"]

    def timed(name: str, work: Any) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            wait(device)
            started = time.perf_counter()
            found = work(*args, **options)
            wait(device)
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - started
            return found

        return run

    parts: dict[str, tuple[Any, str]] = {
        "layout": (learner._passes, "batches"),
        "forward": (learner._passes, "scored"),
        "backward": (learner._passes, "backward"),
        "optimizer": (optimizer, "step"),
    }
    for name, (owner, method) in parts.items():
        setattr(owner, method, timed(name, getattr(owner, method)))
    timed("whole", learner.learn)(samples, 50, Event())
    for owner, method in parts.values():
        delattr(owner, method)
    return {name: round(seconds, 4) for name, seconds in spent.items()}
