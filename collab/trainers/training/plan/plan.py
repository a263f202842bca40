"""What a training run will take, from the models' configurations alone; no weights are loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from collab.errors import RecipeError
from collab.models.local.batching import pack
from collab.models.local.fast.memory import COMPILED_PRODUCTS
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import TransformersModel, local_weights
from collab.records import Problem
from collab.rewards.outlook import outlook
from collab.runtime.rehearsal import rehearsed, rounds_of
from collab.trainers.training.check import check_recipe, choose_tasks
from collab.trainers.training.plan.sizes import Sizes, sizes_of
from collab.wording import counted

LIBRARIES_BYTES = 420_000_000
"""Python with torch, transformers and PEFT, on a CPU."""

HELD = 0.25
"""What a CPU's allocator holds beyond the activations, as a share of them; measured.

Aligned memory that is freed cannot be taken again for the same size (glibc's bug 14581), so that
chunk after chunk of logits takes another piece until the next trim: the more, the more tokens.
"""

PRODUCT_BYTES = 600_000
"""Of a product that oneDNN has compiled for bfloat16, and torch's description of it."""

CHARACTERS_A_TOKEN = 3.5
"""Of prompts, where the tokenizer is not at hand."""

LOGIT_COPIES = 4
"""Arrays of [chunk, vocabulary] in float32 that log-probabilities and their gradient take at once:
logits, their softmax, its gradient, and the logits that `top_p` or `top_k` have left."""

DRAW_BYTES = 24
"""A token of the vocabulary takes so many bytes while the next one of a row is drawn."""

MEMORY = {
    "libraries": "Python and its libraries",
    "compiled": "kernels that oneDNN compiles",
    "weights": "weights of the models",
    "prepacked": "weights packed for sampling",
    "adapters": "adapters",
    "optimiser": "state of the optimiser",
    "gradients": "gradients",
    "activations": "activations of learning",
    "workspace": "what the allocator holds",
    "sampling": "keys, values and logits",
}
"""What takes memory, in words."""


@dataclass
class Plan:
    """Counts, and memory in bytes by what takes it."""

    steps: int
    episodes_per_step: int
    responses_per_step: int
    tokens_per_step: int
    """Prompts and new tokens of all trained responses, at most."""
    training_tasks: int
    held_out_tasks: int
    update_tokens_per_step: int = 0
    """The same as they are computed to learn from: what responses share counts once."""
    outlook: list[str] = field(default_factory=list)
    """Who writes the answer, and what it can earn."""
    parameters: int = 0
    trainable: int = 0
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.memory.values())

    def text(self) -> str:
        """As lines for people."""
        share = self.trainable / self.parameters if self.parameters else 0.0
        lines = [
            f"{counted(self.steps, 'step')}, {counted(self.training_tasks, 'task')} to train on,"
            f" {self.held_out_tasks:,} held out",
            f"a step: {counted(self.episodes_per_step, 'episode')},"
            f" {counted(self.responses_per_step, 'response')},"
            f" at most {self.tokens_per_step:,} tokens,"
            f" {self.update_tokens_per_step:,} of them computed to learn from",
            *self.outlook,
            f"parameters: {self.parameters:,}, trained {self.trainable:,} ({share:.2%})",
            f"memory: {self.total / 1e9:.2f} GB",
        ]
        lines += [
            f"  {MEMORY[name]:<27} {size / 1e9:>7.3f} GB" for name, size in self.memory.items()
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Lengths:
    """One agent's in a step, at most; tokens, and how many responses."""

    prompt: int
    new: int
    responses: int


def make_plan(recipe: Recipe) -> Plan:
    """The plan of training `recipe`.

    Memory is that of one process, or its GPU's, which holds every local model; frozen teammates
    count by their weights. Sampling and learning take turns, so of the two only the larger counts.

    Raises:
        RecipeError, TaskError: the recipe cannot be trained.
        ModelUnavailable: a model's configuration is not at hand.
    """
    spec = check_recipe(recipe)
    tasks = choose_tasks(recipe, spec)
    n_turns = max([recipe.team.turns, *(phase.turns for phase in spec.curriculum)])
    episodes = spec.tasks_per_step * spec.group_size
    if spec.turn_structure == "tree":
        episodes *= spec.group_size ** (n_turns - 1)
    turn = rehearsed(recipe)
    acting = Counter(agent for round_ in turn.rounds for agent in round_.agents)
    trained = [name for name, agent in recipe.team.agents.items() if agent.trainable]
    responses = {name: episodes * n_turns * acting[name] for name in trained}
    lengths = {
        name: Lengths(
            _prompt_tokens(recipe, name, tasks.training),
            recipe.sampling_of(name).max_new_tokens,
            responses[name],
        )
        for name in trained
    }
    plan = Plan(
        steps=tasks.total_steps(spec),
        episodes_per_step=episodes,
        responses_per_step=sum(responses.values()),
        tokens_per_step=sum(n.responses * (n.prompt + n.new) for n in lengths.values()),
        training_tasks=len(tasks.training),
        held_out_tasks=len(tasks.held_out),
        outlook=outlook(recipe, turn.joined if turn.is_chosen else None),
    )
    _count_memory(plan, recipe, spec, trained, lengths)
    return plan


def _count_memory(
    plan: Plan,
    recipe: Recipe,
    spec: TrainerSpec,
    trained: Sequence[str],
    lengths: dict[str, Lengths],
) -> None:
    from collab.models.weights import pick_device

    models: dict[str, TransformersModel] = {}
    sampled: set[str] = set()
    for name in recipe.team.agents:
        model = local_weights(recipe.model_of(name))
        if model is not None:
            own = f" {name}" if spec.policies == "full" and name in trained else ""
            key = model.model_dump_json() + own
            models[key] = model
            if model.fast and recipe.model_of(name) == model:
                sampled.add(key)
    sizes = {key: sizes_of(model, spec) for key, model in models.items()}
    of_agent = {name: sizes_of(_local(recipe, name), spec) for name in trained}
    policies = _policies(recipe, spec, trained)
    plan.update_tokens_per_step = sum(
        _learned_tokens(sizes.shares, spec, lengths[name]) for name, sizes in of_agent.items()
    )
    copies = 2 if spec.policies == "full" and spec.kl_coef else 1
    plan.parameters = sum(s.parameters for s in sizes.values()) + sum(
        s.adapter_parameters for _, s in policies if spec.policies != "full"
    )
    counts = [
        (s.parameters, s.bytes) if spec.policies == "full" else (s.adapter_parameters, 4)
        for _, s in policies
    ]
    plan.trainable = sum(count for count, _ in counts)
    on_cpu = any(pick_device(model.device).type == "cpu" for model in models.values())
    learning = max(_activations(s, spec, lengths[a]) for a, s in of_agent.items())
    workspace = int(HELD * learning) if on_cpu else 0
    learning += max(_logits(s, spec, lengths[a]) for a, s in of_agent.items())
    sampling = max(_sampling(recipe, a, s, plan, lengths[a]) for a, s in of_agent.items())
    plan.memory = {
        "libraries": LIBRARIES_BYTES if on_cpu else 0,
        "compiled": COMPILED_PRODUCTS * PRODUCT_BYTES if on_cpu else 0,
        "weights": copies * sum(s.parameters * s.bytes for s in sizes.values()),
        "prepacked": sum(sizes[key].packed * sizes[key].bytes for key in sampled),
        "adapters": 0 if spec.policies == "full" else sum(n * size for n, size in counts),
        "optimiser": sum(n * (8 if size == 4 else 12) for n, size in counts),
        "gradients": max(n * size for n, size in counts),
        "activations": learning if learning >= sampling else 0,
        "workspace": workspace if learning >= sampling else 0,
        "sampling": sampling if sampling > learning else 0,
    }


def _policies(recipe: Recipe, spec: TrainerSpec, trained: Sequence[str]) -> list[tuple[str, Sizes]]:
    """Name and model of each policy."""
    found = {}
    for name in trained:
        model = _local(recipe, name)
        key = model.model_dump_json() if spec.policies == "shared_adapter" else name
        found[key] = sizes_of(model, spec)
    return list(found.items())


def _local(recipe: Recipe, name: str) -> TransformersModel:
    model = local_weights(recipe.model_of(name))
    if model is None:
        raise RecipeError(f"agent '{name}' has no local model")
    return model


def _learned_tokens(shares: bool, spec: TrainerSpec, lengths: Lengths) -> int:
    """Of a step's responses to learn from, those of a group behind one prompt where they fit."""
    fitting = max((spec.micro_batch_tokens - lengths.prompt) // lengths.new, 1)
    together = min(fitting, spec.group_size) if shares else 1
    rows = ceil(lengths.responses / together)
    return rows * lengths.prompt + lengths.responses * lengths.new


def _micro_batch(sizes: Sizes, spec: TrainerSpec, lengths: Lengths) -> int:
    """Tokens of the largest micro-batch."""
    most = max(spec.micro_batch_tokens, lengths.prompt + lengths.new)
    return min(_learned_tokens(sizes.shares, spec, lengths), most)


def _activations(sizes: Sizes, spec: TrainerSpec, lengths: Lengths) -> int:
    """Of one micro-batch: what each layer keeps for the backward pass."""
    from collab.trainers.learner.prefix_tree.attention import SHORT

    tokens = _micro_batch(sizes, spec, lengths)
    # In the model's type: inputs of the projections, and what attention keeps. In float32: norms.
    hidden = sizes.hidden * (7 * sizes.bytes + 2 * 4)
    weights = sizes.attention * min(lengths.prompt + lengths.new, SHORT)
    layer = tokens * (hidden + (4 * sizes.intermediate + weights) * sizes.bytes)
    kept = tokens * sizes.hidden * sizes.bytes if spec.gradient_checkpointing else layer
    return kept * sizes.layers + layer


def _logits(sizes: Sizes, spec: TrainerSpec, lengths: Lengths) -> int:
    """Of one chunk of a micro-batch."""
    from collab.trainers.learner.logprobs import CHUNK_TOKENS

    tokens = min(_micro_batch(sizes, spec, lengths), CHUNK_TOKENS)
    return LOGIT_COPIES * 4 * tokens * sizes.vocabulary


def _sampling(recipe: Recipe, agent: str, sizes: Sizes, plan: Plan, lengths: Lengths) -> int:
    """Of one padded batch: the key-value cache, and drawing from the vocabulary.

    Engines in processes of their own keep to their share of the memory, and are not counted.
    """
    model = recipe.model_of(agent)
    if not isinstance(model, TransformersModel):
        return 0
    rows = min(plan.responses_per_step, recipe.concurrency * len(recipe.team.agents))
    batch = len(pack([(lengths.prompt, lengths.new)] * rows, model.batch_tokens)[0])
    cache = batch * (lengths.prompt + lengths.new) * sizes.layers * sizes.key_values * sizes.bytes
    return int(1.5 * cache) + batch * sizes.vocabulary * DRAW_BYTES


def _prompt_tokens(recipe: Recipe, agent: str, problems: Sequence[Problem]) -> int:
    """The longest first prompt of an agent, roughly: its template and the public fields."""
    spec = recipe.team.agents[agent]
    from collab.agents import Template

    template = Template(spec.prompt, f"team.agents.{agent}.prompt")
    round_ = next(round_ for round_ in rounds_of(recipe) if agent in round_.agents)
    fields: dict[str, Any] = {
        "agent": agent,
        "agents": list(recipe.team.agents),
        "turn": 0,
        "others": round_.others[agent],
        **round_.fields.get(agent, {}),
    }
    longest = max(
        (len(template.render(task=p.public, feedback="", **fields)) for p in problems), default=0
    )
    return ceil((longest + len(spec.role)) / CHARACTERS_A_TOKEN) + 16
