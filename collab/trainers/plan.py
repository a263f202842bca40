"""What a training run will take, from the models' configurations alone; no weights are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from collab.errors import ModelUnavailable, RecipeError
from collab.models import store
from collab.models.batches import pack
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import TransformersModel
from collab.records import Problem
from collab.trainers.check import check_recipe, choose_tasks

LIBRARIES_BYTES = 420_000_000
"""Python with torch, transformers and PEFT, on a CPU."""

CHARACTERS_A_TOKEN = 3.5
"""Of prompts, where the tokenizer is not at hand."""

LOGIT_COPIES = 4
"""Arrays of [chunk, vocabulary] in float32 that a log-softmax and its gradient hold at once."""

DRAW_BYTES = 24
"""A token of the vocabulary takes so many bytes while the next one of a row is drawn."""


@dataclass(frozen=True)
class Sizes:
    """A language model's dimensions, as its configuration gives them."""

    parameters: int
    adapter_parameters: int
    """Of one adapter."""
    layers: int
    hidden: int
    intermediate: int
    key_values: int
    """Numbers that the cache holds for one token in one layer."""
    vocabulary: int
    bytes: int
    """Of one number."""


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
            f"{self.steps:,} steps, {self.training_tasks:,} tasks to train on,"
            f" {self.held_out_tasks:,} held out",
            f"a step: {self.episodes_per_step:,} episodes, {self.responses_per_step:,} responses,"
            f" at most {self.tokens_per_step:,} tokens",
            f"parameters: {self.parameters:,}, trained {self.trainable:,} ({share:.2%})",
            f"memory: {self.total / 1e9:.2f} GB",
        ]
        lines += [f"  {name:<12} {size / 1e9:>7.3f} GB" for name, size in self.memory.items()]
        return "\n".join(lines)


def make_plan(recipe: Recipe) -> Plan:
    """The plan of training `recipe`.

    Memory is that of one process which holds every local model; frozen teammates count by their
    weights. Sampling and learning take turns, so of the two only the larger counts.

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
    rounds = 2 if recipe.team.protocol == "discussion" else 1
    trained = [name for name, agent in recipe.team.agents.items() if agent.trainable]
    responses = dict.fromkeys(trained, episodes * n_turns * rounds)
    lengths = {
        name: _prompt_tokens(recipe, name, tasks.training) + recipe.sampling_of(name).max_new_tokens
        for name in trained
    }
    plan = Plan(
        steps=tasks.total_steps(spec),
        episodes_per_step=episodes,
        responses_per_step=sum(responses.values()),
        tokens_per_step=sum(responses[name] * lengths[name] for name in trained),
        training_tasks=len(tasks.training),
        held_out_tasks=len(tasks.held_out),
    )
    _count_memory(plan, recipe, spec, trained, lengths)
    return plan


def _count_memory(
    plan: Plan,
    recipe: Recipe,
    spec: TrainerSpec,
    trained: Sequence[str],
    lengths: dict[str, int],
) -> None:
    models: dict[str, TransformersModel] = {}
    for name in recipe.team.agents:
        model = recipe.model_of(name)
        if isinstance(model, TransformersModel):
            own = f" {name}" if spec.policies == "full" and name in trained else ""
            models[model.model_dump_json() + own] = model
    sizes = {key: _sizes(model, spec) for key, model in models.items()}
    of_agent = {name: _sizes(_local(recipe, name), spec) for name in trained}
    policies = _policies(recipe, spec, trained)
    copies = 2 if spec.policies == "full" and spec.kl_coef else 1
    plan.parameters = sum(s.parameters for s in sizes.values()) + sum(
        s.adapter_parameters for _, s in policies if spec.policies != "full"
    )
    counts = [
        (s.parameters, s.bytes) if spec.policies == "full" else (s.adapter_parameters, 4)
        for _, s in policies
    ]
    plan.trainable = sum(count for count, _ in counts)
    learning = max(_activations(s, spec, lengths[a]) for a, s in of_agent.items())
    sampling = max(_sampling(recipe, a, s, plan, lengths[a]) for a, s in of_agent.items())
    plan.memory = {
        "libraries": LIBRARIES_BYTES,
        "weights": copies * sum(s.parameters * s.bytes for s in sizes.values()),
        "adapters": 0 if spec.policies == "full" else sum(n * size for n, size in counts),
        "optimiser": sum(n * (8 if size == 4 else 12) for n, size in counts),
        "gradients": max(n * size for n, size in counts),
        "activations": learning if learning >= sampling else 0,
        "sampling": sampling if sampling > learning else 0,
    }


def _policies(recipe: Recipe, spec: TrainerSpec, trained: Sequence[str]) -> list[tuple[str, Sizes]]:
    """Name and model of each policy."""
    found = {}
    for name in trained:
        model = _local(recipe, name)
        key = model.model_dump_json() if spec.policies == "shared_adapter" else name
        found[key] = _sizes(model, spec)
    return list(found.items())


def _local(recipe: Recipe, name: str) -> TransformersModel:
    model = recipe.model_of(name)
    if not isinstance(model, TransformersModel):
        raise RecipeError(f"agent '{name}' has no local model")
    return model


def _activations(sizes: Sizes, spec: TrainerSpec, length: int) -> int:
    """Of one micro-batch: what each layer keeps for the backward pass, and a chunk of logits."""
    tokens = max(spec.micro_batch_tokens // length, 1) * length
    layer = tokens * (ACTIVE_HIDDEN * sizes.hidden + ACTIVE_INTERMEDIATE * sizes.intermediate)
    kept = tokens * sizes.hidden if spec.gradient_checkpointing else layer
    from collab.trainers.logprobs import CHUNK_ELEMENTS

    logits = LOGIT_COPIES * 4 * min(CHUNK_ELEMENTS, tokens * sizes.vocabulary)
    return (kept * sizes.layers + layer) * sizes.bytes + logits


ACTIVE_HIDDEN, ACTIVE_INTERMEDIATE = 14, 5
"""Vectors of either size that a layer with adapters on all its linear layers keeps a token."""


def _sampling(recipe: Recipe, agent: str, sizes: Sizes, plan: Plan, length: int) -> int:
    """Of one padded batch: the key-value cache, and drawing from the vocabulary."""
    model = _local(recipe, agent)
    rows = min(plan.responses_per_step, recipe.concurrency * len(recipe.team.agents))
    new = recipe.sampling_of(agent).max_new_tokens
    batch = len(pack([(length - new, new)] * rows, model.batch_tokens)[0])
    cache = batch * length * sizes.layers * sizes.key_values * sizes.bytes
    return int(1.5 * cache) + batch * sizes.vocabulary * DRAW_BYTES


def _prompt_tokens(recipe: Recipe, agent: str, problems: Sequence[Problem]) -> int:
    """The longest first prompt of an agent, roughly: its template and the public fields."""
    spec = recipe.team.agents[agent]
    from collab.agents import Template

    template = Template(spec.prompt, f"team.agents.{agent}.prompt")
    fields = {"agent": agent, "agents": list(recipe.team.agents), "turn": 0, "others": {}}
    longest = max(
        (len(template.render(task=p.public, feedback="", **fields)) for p in problems), default=0
    )
    return ceil((longest + len(spec.role)) / CHARACTERS_A_TOKEN) + 16


def _sizes(model: TransformersModel, spec: TrainerSpec) -> Sizes:
    return _measure(model.name, model.revision, model.dtype, model.device, spec.model_dump_json())


@cache
def _measure(name: str, revision: str | None, dtype: str, device: str, trainer: str) -> Sizes:
    """Build the model without memory, on torch's `meta` device, and count."""
    import torch
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM

    from collab.models.weights import pick_device, pick_dtype, quiet_transformers
    from collab.trainers.adapters import lora_config

    spec = TrainerSpec.model_validate_json(trainer)
    width = pick_dtype(dtype, pick_device(device)).itemsize
    with quiet_transformers(), torch.device("meta"):
        module = AutoModelForCausalLM.from_config(_config(name, revision))
        parameters = sum(p.numel() for p in module.parameters())
        adapted = get_peft_model(module, lora_config(spec.lora))
        adapter = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    config = module.config.get_text_config()
    heads = config.num_attention_heads
    width_of_head = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Sizes(
        parameters=parameters,
        adapter_parameters=adapter,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        key_values=2 * width_of_head * (getattr(config, "num_key_value_heads", None) or heads),
        vocabulary=config.vocab_size,
        bytes=width,
    )


def _config(name: str, revision: str | None) -> Any:
    """A model's configuration: of an alias or folder as it lies here, of a hub model by itself."""
    from transformers import AutoConfig

    store.check_name(name, revision)
    if name in store.ALIASES or Path(name).expanduser().is_dir():
        return AutoConfig.from_pretrained(store.resolve(name, revision), local_files_only=True)
    try:
        return AutoConfig.from_pretrained(name, revision=revision)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelUnavailable(
            f"the configuration of {name!r} cannot be had from the hub: {reason}; check the"
            " network, or give a local folder"
        ) from error
