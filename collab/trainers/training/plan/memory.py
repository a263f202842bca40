"""Counts the maximum number of tokens of a step, and the memory of a training run, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from collab.models import Request
from collab.models.local.batching import CPU_BATCH_TOKENS, batch_bytes, gpu_batch_tokens
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import TransformersSpec, VLLMSpec, local_weights
from collab.recipe.recipe import DEFAULT_CONCURRENCY
from collab.runtime.prompt_check import CHARACTERS_PER_TOKEN, count_characters
from collab.trainers.credit.shape import Shape
from collab.trainers.learner.device_sizes import DeviceSizes, device_sizes, learning_bytes
from collab.trainers.training.plan.cards import Card
from collab.trainers.training.plan.sizes import ModelSize, sizes_of

MESSAGE_TOKENS = 16
"""Estimated tokens that a chat template adds per message."""

FIRST_GPU_NAMES = ("auto", "cuda", "cuda:0")
"""Names of the device on which the local vLLM engine runs."""


@dataclass(frozen=True)
class Lengths:
    """One agent's responses at one position in the episodes of a step."""

    prompt: int
    """Maximum number of tokens of a prompt."""
    new: int
    """Maximum number of tokens of a response."""
    responses: int
    prompts: int
    """Number of different prompts. Learning reads each of them once."""

    @property
    def tokens(self) -> int:
        """Number of tokens to compute in order to learn from all responses."""
        return self.prompts * self.prompt + self.responses * self.new


def lengths_of(
    requests: Sequence[Request], spec: TrainerSpec, agents: Sequence[str]
) -> dict[str, list[Lengths]]:
    """Return the positions at which each agent acts. `requests` come from complete episodes."""
    by_agent: dict[str, dict[tuple[int, int, int], Lengths]] = {agent: {} for agent in agents}
    for request in requests:
        call = request.call
        if call.agent not in by_agent:
            continue
        tokens = ceil(count_characters(request) / CHARACTERS_PER_TOKEN)
        tokens += MESSAGE_TOKENS * len(request.messages)
        places, place = by_agent[call.agent], (call.turn, call.round, call.step)
        branches = call.turn + 1 if spec.turn_structure == "tree" else 1
        responses = spec.tasks_per_step * spec.group_size**branches
        before = places[place].prompt if place in places else 0
        shares_prompt = call.round == 0 and (call.turn == 0 or spec.turn_structure != "chains")
        places[place] = Lengths(
            prompt=max(tokens, before),
            new=request.sampling.max_new_tokens,
            responses=responses,
            prompts=ceil(responses / spec.group_size) if shares_prompt else responses,
        )
    return {agent: list(places.values()) for agent, places in by_agent.items()}


def step_episodes(requests: Sequence[Request], spec: TrainerSpec) -> int:
    """Return the number of episodes per step; for a tree, its leaves."""
    n_turns = 1 + max((request.call.turn for request in requests), default=0)
    shape = Shape(spec.turn_structure, spec.group_size, n_turns)
    return spec.tasks_per_step * shape.episodes


def local_engines(recipe: Recipe) -> list[VLLMSpec]:
    """Return the models that a local vLLM engine runs on the trainer's GPU."""
    return [model for model in recipe.vllm_engines if model.trainer_device in FIRST_GPU_NAMES]


def engine_bytes(recipe: Recipe, memory: int, weights: int) -> int:
    """Return what local vLLM engines take of a GPU: a share, or a cache and `weights`."""
    models = local_engines(recipe) if memory else []
    taken = [
        model.divide_memory(len(models)).memory_share * memory
        if model.kv_cache_gb is None
        else model.kv_cache_gb * 1e9 + weights
        for model in models
    ]
    return int(sum(taken))


def may_sleep(recipe: Recipe, spec: TrainerSpec, ranks: int) -> bool:
    """Return True if the local engines can sleep, and the recipe leaves the choice open.

    Servers of ranks keep their memory, as do engines that sample while a step is learned.
    """
    is_open = any(model.sleep is None for model in local_engines(recipe))
    return is_open and ranks == 1 and not spec.max_staleness


def _learning_peak(sizes: ModelSize, chosen: DeviceSizes, lengths: Sequence[Lengths]) -> int:
    """Return the bytes of one micro-batch."""
    longest = max((item.prompt + item.new for item in lengths), default=0)
    total = sum(item.tokens for item in lengths)
    return learning_bytes(
        sizes.dimensions,
        min(total, max(chosen.micro_batch_tokens, longest)),
        chosen.head_chunk_tokens,
        checkpointing=chosen.gradient_checkpointing,
    )


def _sampling_peak(
    recipe: Recipe,
    agent: str,
    sizes: ModelSize,
    lengths: Sequence[Lengths],
    *,
    responses: int,
    free: int,
) -> int:
    """Return the bytes of one batch of a step's `responses`, with `free` bytes left on a GPU.

    Engines with their own processes are not counted.
    """
    model = recipe.model_of(agent)
    if not isinstance(model, TransformersSpec):
        return 0
    on_cpu = sizes.device.type == "cpu"
    concurrency = recipe.concurrency or (DEFAULT_CONCURRENCY if on_cpu else responses)
    rows = min(responses, concurrency * len(recipe.team.agents))
    peak = 0
    for width in {item.prompt + item.new for item in lengths}:
        budget = CPU_BATCH_TOKENS if on_cpu else gpu_batch_tokens(sizes.dimensions, free, width)
        fitting = max((model.batch_tokens or budget) // width, 1)
        peak = max(peak, batch_bytes(sizes.dimensions, min(rows, fitting), width))
    return peak


RUNTIME_BYTES = {"cpu": 500_000_000, "cuda": 600_000_000}
"""Memory of Python and its libraries with their kernels on a CPU, or of CUDA's context."""

ALLOCATOR_OVERHEAD = 1.25
"""Factor on the activations of a CPU, as measured. Its allocator cannot reuse freed aligned memory
for the same size (glibc's bug 14581), so each chunk of logits takes new memory until a trim."""

RESERVE_SHARE = 0.05
"""Reserve for uncounted parts, as a share of the counted memory."""

SAMPLING_ADAPTER_FACTOR = 2
"""Factor on the adapters' memory for sampling, which joins layers with the same input."""

MEMORY_LABELS = {
    "runtime": "Python and its libraries",
    "weights": "weights of the models",
    "prepacked": "packed weights for sampling",
    "adapters": "adapters",
    "optimizer": "state of the optimizer",
    "gradients": "gradients",
    "activations": "activations while learning",
    "sampling": "keys, values and logits",
    "vllm": "vLLM's share of the GPU",
    "reserve": "reserve",
}
"""Labels of the parts of the memory."""


@dataclass(frozen=True)
class MemoryEstimate:
    """The estimated memory of training, and the quantities from which it was computed."""

    memory: dict[str, int]
    """Bytes by part."""
    parameters: int
    trained: list[tuple[int, int]]
    """Number of trained parameters and bytes per parameter, for each policy."""
    chosen: dict[str, DeviceSizes]
    """Sizes that the learner computes with, by agent."""
    devices: frozenset[str]
    """Types of the devices that learn."""
    sleeps: bool
    """True if vLLM releases its memory while the trainer learns."""


def count_memory(
    recipe: Recipe,
    spec: TrainerSpec,
    lengths: Mapping[str, Sequence[Lengths]],
    card: Card | None,
    ranks: int = 1,
) -> MemoryEstimate:
    """Return the estimated memory that `recipe` takes on each of `ranks` ranks. `lengths` are by
    trained agent.

    With `card`, that GPU replaces the local device. If the recipe leaves open whether vLLM sleeps
    while the trainer learns, it sleeps if both do not fit at the same time.
    """
    models, sampled = _models_in_memory(recipe, spec, lengths)
    sizes = {key: sizes_of(model, spec.lora, card) for key, model in models.items()}
    agent_sizes = {name: sizes_of(_model_of(recipe, name), spec.lora, card) for name in lengths}
    full, shared = spec.policies == "full", spec.policies == "shared_adapter"
    policies = {
        _model_of(recipe, name).model_dump_json() if shared else name: size
        for name, size in agent_sizes.items()
    }
    trained = [
        (s.parameters, s.device.itemsize) if full else (s.adapter_parameters, 4)
        for s in policies.values()
    ]
    adapters = 0 if full else sum(s.adapter_parameters for s in policies.values())
    devices = frozenset(s.device.type for s in agent_sizes.values())
    on_cpu = any(s.device.type == "cpu" for s in sizes.values())
    memory = {
        "runtime": RUNTIME_BYTES["cpu" if on_cpu else "cuda"],
        "weights": (2 if full and spec.kl_coef else 1)
        * sum(s.weight_bytes for s in sizes.values()),
        "prepacked": sum(sizes[key].packed * sizes[key].device.itemsize for key in sampled),
        "adapters": 4 * adapters,
        "optimizer": sum(n * (8 if size == 4 else 12) for n, size in trained),
        "gradients": max(n * max(size, 4) for n, size in trained),
    }
    gpu_memory = max(s.device.memory for s in agent_sizes.values())
    engine = engine_bytes(recipe, gpu_memory, max(s.weight_bytes for s in agent_sizes.values()))
    responses = sum(item.responses for items in lengths.values() for item in items)

    def counted(*, sleeps: bool) -> MemoryEstimate:
        free = gpu_memory - sum(memory.values()) - (0 if sleeps else engine)
        chosen = {
            a: device_sizes(spec, s.device.type, s.dimensions, free) for a, s in agent_sizes.items()
        }
        learning = max(_learning_peak(s, chosen[a], lengths[a]) for a, s in agent_sizes.items())
        sampling = max(
            _sampling_peak(recipe, a, s, lengths[a], responses=responses, free=free)
            for a, s in agent_sizes.items()
        )
        if sampling and not full:
            sampling += SAMPLING_ADAPTER_FACTOR * sum(
                s.adapter_parameters * s.device.itemsize for s in policies.values()
            )
        overhead = ALLOCATOR_OVERHEAD if on_cpu else 1.0
        is_sampling = max(sampling * overhead, engine * sleeps) > learning * overhead
        parts = memory | {
            "activations": 0 if is_sampling else int(learning * overhead),
            "sampling": int(sampling * overhead) if is_sampling else 0,
            "vllm": engine if is_sampling or not sleeps else 0,
        }
        parts["reserve"] = int(RESERVE_SHARE * sum(parts.values()))
        parameters = sum(s.parameters for s in sizes.values()) + adapters
        return MemoryEstimate(parts, parameters, trained, chosen, devices, sleeps and engine > 0)

    awake = counted(sleeps=any(model.sleep for model in local_engines(recipe)))
    if may_sleep(recipe, spec, ranks) and sum(awake.memory.values()) > gpu_memory > 0:
        return counted(sleeps=True)
    return awake


def _models_in_memory(
    recipe: Recipe, spec: TrainerSpec, trained: Mapping[str, object]
) -> tuple[dict[str, TransformersSpec], set[str]]:
    """Return the local models in memory, by key, and the keys of those used for sampling."""
    models: dict[str, TransformersSpec] = {}
    sampled: set[str] = set()
    for name in recipe.team.agents:
        model = local_weights(recipe.model_of(name))
        if model is not None:
            owner = f" {name}" if spec.policies == "full" and name in trained else ""
            key = model.model_dump_json() + owner
            models[key] = model
            if model.fast and recipe.model_of(name) == model:
                sampled.add(key)
    return models, sampled


def _model_of(recipe: Recipe, name: str) -> TransformersSpec:
    model = local_weights(recipe.model_of(name))
    assert model is not None, "check_recipe has passed"
    return model
