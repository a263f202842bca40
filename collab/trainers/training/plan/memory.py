"""Counts the maximum number of tokens of a step, and the memory of a training run, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from collab.errors import RecipeError
from collab.models import Request
from collab.models.local.batching import CPU_TOKENS, batch_bytes, fitting_tokens, pack
from collab.models.local.fast.memory import COMPILED_PRODUCTS
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import TransformersModel, VLLMModel, local_weights
from collab.runtime.dry_run import CHARACTERS_A_TOKEN, characters
from collab.runtime.session import LANES
from collab.trainers.credit.shape import Shape
from collab.trainers.learner.device_sizes import DeviceSizes, device_sizes, learning_bytes
from collab.trainers.training.plan.cards import Card
from collab.trainers.training.plan.sizes import Sizes, sizes_of

MESSAGE_TOKENS = 16
"""Estimated tokens that a chat template adds per message."""

FIRST_GPU = ("auto", "cuda", "cuda:0")
"""Names of the device on which the local vLLM engine runs."""


@dataclass(frozen=True)
class Lengths:
    """One agent's responses at one position in the episodes of a step."""

    prompt: int
    """Maximum number of tokens of a prompt."""
    new: int
    """Maximum number of tokens of a response."""
    responses: int
    alike: bool
    """True if the samples of a group have the same prompt."""


def lengths_of(
    requests: Sequence[Request], spec: TrainerSpec, agents: Sequence[str]
) -> dict[str, list[Lengths]]:
    """Return the positions at which each agent acts. `requests` come from complete episodes."""
    responses = spec.tasks_per_step * spec.group_size
    if spec.turn_structure == "tree":
        responses = episodes_a_step(requests, spec)
    by_agent: dict[str, dict[tuple[int, int, int], Lengths]] = {agent: {} for agent in agents}
    for request in requests:
        call = request.call
        if call.agent not in by_agent:
            continue
        tokens = ceil(characters(request) / CHARACTERS_A_TOKEN)
        tokens += MESSAGE_TOKENS * len(request.messages)
        places, place = by_agent[call.agent], (call.turn, call.round, call.step)
        before = places[place].prompt if place in places else 0
        places[place] = Lengths(
            prompt=max(tokens, before),
            new=request.sampling.max_new_tokens,
            responses=responses,
            alike=call.round == 0 and (call.turn == 0 or spec.turn_structure != "chains"),
        )
    return {agent: list(places.values()) for agent, places in by_agent.items()}


def episodes_a_step(requests: Sequence[Request], spec: TrainerSpec) -> int:
    """Return the episodes of a step, or the leaves of a tree."""
    n_turns = 1 + max((request.call.turn for request in requests), default=0)
    shape = Shape(spec.turn_structure, spec.group_size, n_turns)
    return spec.tasks_per_step * shape.episodes


def longest(lengths: Sequence[Lengths]) -> int:
    """Return the tokens of the longest prompt with its response."""
    return max((item.prompt + item.new for item in lengths), default=0)


@dataclass(frozen=True)
class Rows:
    """The layout of responses in micro-batches."""

    budget: int
    """Number of tokens in a micro-batch, including padding."""
    shared: bool
    """True if a row holds one prompt, and as many of a group's responses as fit."""
    group_size: int


def learned_tokens(rows: Rows, lengths: Sequence[Lengths]) -> int:
    """Count the tokens to compute in order to learn from all responses of a step."""
    return sum(_tokens_of_rows(rows, item) for item in lengths)


def micro_batch_tokens(rows: Rows, lengths: Sequence[Lengths]) -> int:
    """Return the tokens of the largest micro-batch."""
    return min(learned_tokens(rows, lengths), max(rows.budget, longest(lengths)))


def _tokens_of_rows(rows: Rows, item: Lengths) -> int:
    fitting = max((rows.budget - item.prompt) // item.new, 1)
    together = min(fitting, rows.group_size) if rows.shared and item.alike else 1
    stems = ceil(item.responses / together)
    return stems * item.prompt + item.responses * item.new


def engines_beside(recipe: Recipe) -> list[VLLMModel]:
    """Return the models of local vLLM engines on the trainer's GPU."""
    models = dict.fromkeys(recipe.model_of(name) for name in recipe.team.agents)
    here = [m for m in models if isinstance(m, VLLMModel) and not m.servers]
    return [model for model in here if model.trainer_device in FIRST_GPU]


def engine_bytes(recipe: Recipe, memory: int, weights: int) -> int:
    """Return the bytes that local vLLM engines take of a GPU's `memory`.

    `weights` are the bytes of a base, added to `kv_cache_gb` if that is set.
    """
    taken = 0.0
    models = engines_beside(recipe) if memory else []
    for model in models:
        cache = model.kv_cache_gb
        share = model.among(len(models)).memory_share
        taken += share * memory if cache is None else cache * 1e9 + weights
    return int(taken)


def sleep_is_set(recipe: Recipe) -> bool:
    """Return True if the recipe makes the local engines sleep."""
    return any(model.sleep for model in engines_beside(recipe))


def may_sleep(recipe: Recipe, spec: TrainerSpec, ranks: int) -> bool:
    """Return True if the local engines can sleep, and the recipe leaves the choice open.

    Servers of ranks keep their memory, as do engines that sample while a step is learned.
    """
    is_open = any(model.sleep is None for model in engines_beside(recipe))
    return is_open and ranks == 1 and not spec.max_staleness


def learning_peak(sizes: Sizes, chosen: DeviceSizes, rows: Rows, lengths: Sequence[Lengths]) -> int:
    """Return the bytes of one micro-batch: the layers' activations, and the logits of a chunk."""
    return learning_bytes(
        sizes.dimensions,
        micro_batch_tokens(rows, lengths),
        chosen.head_chunk_tokens,
        checkpointing=chosen.gradient_checkpointing,
    )


def sampling_peak(
    recipe: Recipe,
    agent: str,
    sizes: Sizes,
    lengths: Sequence[Lengths],
    *,
    responses: int,
    free: int,
) -> int:
    """Return the bytes of one padded batch: the key-value cache, and drawing from the vocabulary.

    `responses` are those of a step, and `free` bytes are left on a GPU. Engines with their own
    processes are not counted.
    """
    model = recipe.model_of(agent)
    if not isinstance(model, TransformersModel):
        return 0
    shape, on_cpu = sizes.dimensions, sizes.device.type == "cpu"
    lanes = recipe.concurrency or (LANES if on_cpu else responses)
    rows = min(responses, lanes * len(recipe.team.agents))

    def batch(item: Lengths) -> int:
        width = item.prompt + item.new
        budget = CPU_TOKENS if on_cpu else fitting_tokens(shape, free, width)
        budget = model.batch_tokens or budget
        number = len(pack([(item.prompt, item.new)] * rows, budget)[0])
        return batch_bytes(shape, number, width)

    return max((batch(item) for item in lengths), default=0)


LIBRARIES_BYTES = 420_000_000
"""Memory of Python with torch, transformers and PEFT, on a CPU."""

HELD = 0.25
"""Extra memory of a CPU's allocator, as a measured share of the activations.

Freed aligned memory cannot be reused for the same size (glibc's bug 14581). Each chunk of logits
therefore takes new memory until the next trim, and the share grows with the number of tokens.
"""

RESERVE = 0.05
"""Reserve for uncounted parts, as a share of the counted memory, because a plan should be an upper
bound.
"""

PRODUCT_BYTES = 600_000
"""Number of bytes of a product that oneDNN compiles for bfloat16, and of torch's description of it.
"""

SIDE_BY_SIDE = 2
"""Factor on the adapters' memory for stacking them to sample: layers with the same input are
joined, with zeros where a layer has no part."""

CONTEXT_BYTES = 600_000_000
"""Memory of CUDA's context and kernels, on a GPU."""

MEMORY = {
    "libraries": "Python and its libraries",
    "context": "CUDA and its kernels",
    "compiled": "compiled kernels of oneDNN",
    "weights": "weights of the models",
    "prepacked": "weights packed for sampling",
    "adapters": "adapters",
    "optimiser": "state of the optimizer",
    "gradients": "gradients",
    "activations": "activations of learning",
    "workspace": "the allocator's cache",
    "sampling": "keys, values and logits",
    "vllm": "vLLM's share of the GPU",
    "reserve": "in reserve",
}
"""Labels of the parts of the memory."""


@dataclass(frozen=True)
class Counted:
    """Memory in bytes by part, and the quantities from which it was computed."""

    memory: dict[str, int]
    parameters: int
    trained: list[tuple[int, int]]
    """Number of trained parameters and bytes per parameter, for each policy."""
    update_tokens: int
    """Number of tokens to compute in order to learn from a step."""
    chosen: dict[str, DeviceSizes]
    """Sizes that the learner computes with, by agent."""
    sizes: dict[str, Sizes]
    """Dimensions of each trained agent's model."""
    sleeps: bool
    """True if vLLM releases its memory while the trainer learns."""


def count_memory(
    recipe: Recipe,
    spec: TrainerSpec,
    lengths: Mapping[str, Sequence[Lengths]],
    card: Card | None,
    ranks: int = 1,
) -> Counted:
    """Count the memory that `recipe` takes on one of `ranks`. `lengths` are by trained agent.

    With `card`, that GPU replaces the local device. vLLM sleeps while the trainer learns if the
    recipe says so, or if the recipe leaves this open and both do not fit at the same time.
    """
    awake = _count(recipe, spec, lengths, card, sleeps=sleep_is_set(recipe))
    whole = max(s.device.memory for s in awake.sizes.values())
    if may_sleep(recipe, spec, ranks) and sum(awake.memory.values()) > whole > 0:
        return _count(recipe, spec, lengths, card, sleeps=True)
    return awake


def _count(
    recipe: Recipe,
    spec: TrainerSpec,
    lengths: Mapping[str, Sequence[Lengths]],
    card: Card | None,
    *,
    sleeps: bool,
) -> Counted:
    models, sampled = _models(recipe, spec, lengths)
    sizes = {key: sizes_of(model, spec, card) for key, model in models.items()}
    of_agent = {name: sizes_of(_local(recipe, name), spec, card) for name in lengths}
    policies = _policies(recipe, spec, list(lengths), card)
    full = spec.policies == "full"
    trained = [(s.parameters, s.bytes) if full else (s.adapter_parameters, 4) for _, s in policies]
    starts = [] if full else _starts(recipe, spec, policies)
    parameters = sum(s.parameters for s in sizes.values()) + sum(starts)
    if not full:
        parameters += sum(s.adapter_parameters for _, s in policies)
    on_cpu = any(s.device.type == "cpu" for s in sizes.values())
    copies = 2 if full and spec.kl_coef else 1
    memory = {
        "libraries": LIBRARIES_BYTES if on_cpu else 0,
        "context": 0 if on_cpu else CONTEXT_BYTES,
        "compiled": COMPILED_PRODUCTS * PRODUCT_BYTES if on_cpu else 0,
        "weights": copies * sum(s.weight_bytes for s in sizes.values()),
        "prepacked": sum(sizes[key].packed * sizes[key].bytes for key in sampled),
        "adapters": 0 if full else sum(n * size for n, size in trained) + 4 * sum(starts),
        "optimiser": sum(n * (8 if size == 4 else 12) for n, size in trained),
        "gradients": max(n * max(size, 4) for n, size in trained),
    }
    whole = max(s.device.memory for s in of_agent.values())
    engine = engine_bytes(recipe, whole, max(s.weight_bytes for s in of_agent.values()))
    memory["vllm"] = 0 if sleeps else engine
    free = whole - sum(memory.values())
    chosen = {a: device_sizes(spec, s.device, s.dimensions, free) for a, s in of_agent.items()}
    rows = {
        a: Rows(chosen[a].micro_batch_tokens, s.shares, spec.group_size)
        for a, s in of_agent.items()
    }
    held = HELD if on_cpu else 0.0
    learning = max(learning_peak(s, chosen[a], rows[a], lengths[a]) for a, s in of_agent.items())
    workspace = int(held * learning)
    responses = sum(item.responses for items in lengths.values() for item in items)
    sampling = max(
        sampling_peak(recipe, a, s, lengths[a], responses=responses, free=free)
        for a, s in of_agent.items()
    )
    if sampling and not full:
        sampling += SIDE_BY_SIDE * sum(s.adapter_parameters * s.bytes for _, s in policies)
    if max(sampling * (1 + held), engine * sleeps) > learning + workspace:
        learning, workspace = 0, int(held * sampling)
        memory["vllm"] = engine
    else:
        sampling = 0
    memory |= {"activations": learning, "workspace": workspace, "sampling": sampling}
    memory["reserve"] = int(RESERVE * sum(memory.values()))
    tokens = sum(learned_tokens(rows[name], lengths[name]) for name in of_agent)
    return Counted(memory, parameters, trained, tokens, chosen, of_agent, sleeps and engine > 0)


def _models(
    recipe: Recipe, spec: TrainerSpec, trained: Mapping[str, object]
) -> tuple[dict[str, TransformersModel], set[str]]:
    """Return the local models in memory, by key, and the keys of those used for sampling."""
    models: dict[str, TransformersModel] = {}
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


def _policies(
    recipe: Recipe, spec: TrainerSpec, trained: Sequence[str], card: Card | None
) -> list[tuple[str, Sizes]]:
    """Return name and model of each policy."""
    sizes_by_base = {}
    for name in trained:
        model = _local(recipe, name)
        key = model.model_dump_json() if spec.policies == "shared_adapter" else name
        sizes_by_base[key] = sizes_of(model, spec, card)
    return list(sizes_by_base.items())


def _starts(recipe: Recipe, spec: TrainerSpec, policies: Sequence[tuple[str, Sizes]]) -> list[int]:
    """Return the parameters of the copied adapters from which training begins."""
    started = {name for name, agent in recipe.team.agents.items() if agent.adapter is not None}
    shared = spec.policies == "shared_adapter" and bool(started)
    return [sizes.adapter_parameters for name, sizes in policies if shared or name in started]


def _local(recipe: Recipe, name: str) -> TransformersModel:
    model = local_weights(recipe.model_of(name))
    if model is None:
        raise RecipeError(f"agent '{name}' has no local model")
    return model
