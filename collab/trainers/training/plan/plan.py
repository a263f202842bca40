"""What a training run will take, from the models' configurations alone; no weights are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from collab.errors import RecipeError
from collab.models import Request
from collab.models.local.fast.memory import COMPILED_PRODUCTS
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import TransformersModel, local_weights
from collab.rewards.outlook import outlook
from collab.runtime.dry_run import most_new_tokens
from collab.runtime.rehearsal import rehearsed
from collab.trainers.credit import algorithm_for
from collab.trainers.credit.base import Describes
from collab.trainers.training.check import check_recipe, play_dry
from collab.trainers.training.data import choose_tasks
from collab.trainers.training.plan import peaks
from collab.trainers.training.plan.lengths import (
    Lengths,
    episodes_a_step,
    learned_tokens,
    lengths_of,
)
from collab.trainers.training.plan.sizes import Sizes, sizes_of
from collab.wording import counted

LIBRARIES_BYTES = 420_000_000
"""Python with torch, transformers and PEFT, on a CPU."""

HELD = 0.25
"""What a CPU's allocator holds beyond the activations, as a share of them; measured.

Aligned memory that is freed cannot be taken again for the same size (glibc's bug 14581), so that
chunk after chunk of logits takes another piece until the next trim: the more, the more tokens.
"""

RESERVE = 0.05
"""Of the rest: what a count leaves out. A plan is to be more than what is taken."""

PRODUCT_BYTES = 600_000
"""Of a product that oneDNN has compiled for bfloat16, and torch's description of it."""

SIDE_BY_SIDE = 2
"""Times the adapters that are laid side by side to sample, those of layers that read the same input
as one, with zeros where a layer has no part."""

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
    "reserve": "in reserve",
}
"""What takes memory, in words."""


@dataclass
class Plan:
    """Counts, and memory in bytes by what takes it."""

    steps: int
    """Where tokens end the run, the fewest that reach them."""
    episodes_per_step: int
    responses_per_step: int
    tokens_per_step: int
    """Prompts and new tokens of all trained responses, at most."""
    training_tasks: int
    held_out_tasks: int
    tokens: int | None = None
    """Generated ones that end the run, where they do."""
    update_tokens_per_step: int = 0
    """The same as they are computed to learn from: what responses share counts once."""
    credit: list[str] = field(default_factory=list)
    """How the algorithm gives credit to this team, where it says so."""
    outlook: list[str] = field(default_factory=list)
    """Who writes the answer, and what it can earn."""
    parameters: int = 0
    trainable: int = 0
    memory: dict[str, int] = field(default_factory=dict)
    checkpoints: int = 0
    """Folders that are on the disk at the same time, at most: one more while it is written."""
    disk: int = 0
    """Bytes of the checkpoints and of the trained team, at most."""
    warnings: list[str] = field(default_factory=list)
    """What will not work as it was meant."""

    @property
    def total(self) -> int:
        return sum(self.memory.values())

    def text(self) -> str:
        """As lines for people."""
        share = self.trainable / self.parameters if self.parameters else 0.0
        lines = [
            f"{self._end()}, {counted(self.training_tasks, 'task')} to train on,"
            f" {self.held_out_tasks:,} held out",
            f"a step: {counted(self.episodes_per_step, 'episode')},"
            f" {counted(self.responses_per_step, 'response')},"
            f" at most {self.tokens_per_step:,} tokens,"
            f" {self.update_tokens_per_step:,} of them computed to learn from",
            *self.outlook,
            *self.credit,
            f"parameters: {self.parameters:,}, trained {self.trainable:,} ({share:.2%})",
            f"memory: {self.total / 1e9:.2f} GB",
        ]
        lines += [
            f"  {MEMORY[name]:<27} {size / 1e9:>7.3f} GB" for name, size in self.memory.items()
        ]
        lines.append(f"disk: {self.disk / 1e9:.2f} GB, {self.checkpoints} checkpoints and the team")
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _end(self) -> str:
        if self.tokens is None:
            return counted(self.steps, "step")
        return f"{self.tokens:,} generated tokens, {counted(self.steps, 'step')} or more"


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
    played = play_dry(recipe, spec, tasks)
    turn = rehearsed(recipe)
    trained = [name for name, agent in recipe.team.agents.items() if agent.trainable]
    lengths = lengths_of(played.requests, spec, trained)
    every = [item for items in lengths.values() for item in items]
    plan = Plan(
        steps=_steps(spec, tasks.total_steps(spec), played.requests),
        tokens=spec.tokens,
        episodes_per_step=episodes_a_step(played.requests, spec),
        responses_per_step=sum(item.responses for item in every),
        tokens_per_step=sum(item.responses * (item.prompt + item.new) for item in every),
        training_tasks=len(tasks.training),
        held_out_tasks=len(tasks.held_out),
        outlook=outlook(recipe, turn.joined if turn.is_chosen else None),
        warnings=list(played.warnings),
        credit=_credit(recipe, spec),
    )
    _count_memory(plan, recipe, spec, trained, lengths)
    return plan


def _steps(spec: TrainerSpec, most: int, requests: Sequence[Request]) -> int:
    """The steps of the run; where tokens end it, the fewest that could generate them."""
    if spec.tokens is None:
        return most
    a_step = episodes_a_step(requests, spec) * most_new_tokens(requests)
    return min(most, ceil(spec.tokens / max(1, a_step)))


def _credit(recipe: Recipe, spec: TrainerSpec) -> list[str]:
    algorithm = algorithm_for(spec.algorithm)
    return list(algorithm.describe(recipe, spec)) if isinstance(algorithm, Describes) else []


def _count_memory(
    plan: Plan,
    recipe: Recipe,
    spec: TrainerSpec,
    trained: Sequence[str],
    lengths: dict[str, list[Lengths]],
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
        learned_tokens(sizes.shares, spec, lengths[name]) for name, sizes in of_agent.items()
    )
    copies = 2 if spec.policies == "full" and spec.kl_coef else 1
    starts = [] if spec.policies == "full" else _starts(recipe, spec, policies)
    plan.parameters = sum(s.parameters for s in sizes.values()) + sum(
        s.adapter_parameters for _, s in policies if spec.policies != "full"
    )
    plan.parameters += sum(starts)
    counts = [
        (s.parameters, s.bytes) if spec.policies == "full" else (s.adapter_parameters, 4)
        for _, s in policies
    ]
    plan.trainable = sum(count for count, _ in counts)
    _count_disk(plan, spec, counts)
    on_cpu = any(pick_device(model.device).type == "cpu" for model in models.values())
    held = HELD if on_cpu else 0.0
    learning = max(peaks.activations(s, spec, lengths[a]) for a, s in of_agent.items())
    workspace = int(held * learning)
    learning += max(peaks.logits(s, spec, lengths[a]) for a, s in of_agent.items())
    responses = plan.responses_per_step
    sampling = max(peaks.sampling(recipe, a, s, responses, lengths[a]) for a, s in of_agent.items())
    if sampling and spec.policies != "full":
        sampling += SIDE_BY_SIDE * sum(s.adapter_parameters * s.bytes for _, s in policies)
    if sampling * (1 + held) > learning + workspace:
        learning, workspace = 0, int(held * sampling)
    else:
        sampling = 0
    plan.memory = {
        "libraries": LIBRARIES_BYTES if on_cpu else 0,
        "compiled": COMPILED_PRODUCTS * PRODUCT_BYTES if on_cpu else 0,
        "weights": copies * sum(s.parameters * s.bytes for s in sizes.values()),
        "prepacked": sum(sizes[key].packed * sizes[key].bytes for key in sampled),
        "adapters": 0
        if spec.policies == "full"
        else sum(n * size for n, size in counts) + 4 * sum(starts),
        "optimiser": sum(n * (8 if size == 4 else 12) for n, size in counts),
        "gradients": max(n * (size if size >= 4 else 4 + size) for n, size in counts),
        "activations": learning,
        "workspace": workspace,
        "sampling": sampling,
    }
    plan.memory["reserve"] = int(RESERVE * plan.total)


def _count_disk(plan: Plan, spec: TrainerSpec, counts: Sequence[tuple[int, int]]) -> None:
    """`counts` are each policy's trained numbers, and the bytes of one."""
    team = sum(count * size for count, size in counts)
    state = sum(count * (8 if size >= 4 else 12) for count, size in counts)
    kept = spec.keep_checkpoints + (spec.evaluation is not None)
    plan.checkpoints = min(kept, plan.steps + 1) + 1
    plan.disk = plan.checkpoints * (team + state) + 2 * team  # the team is replaced as a whole


def _policies(recipe: Recipe, spec: TrainerSpec, trained: Sequence[str]) -> list[tuple[str, Sizes]]:
    """Name and model of each policy."""
    found = {}
    for name in trained:
        model = _local(recipe, name)
        key = model.model_dump_json() if spec.policies == "shared_adapter" else name
        found[key] = sizes_of(model, spec)
    return list(found.items())


def _starts(recipe: Recipe, spec: TrainerSpec, policies: Sequence[tuple[str, Sizes]]) -> list[int]:
    """Parameters of the copies of adapters that training begins from."""
    started = {name for name, agent in recipe.team.agents.items() if agent.adapter is not None}
    shared = spec.policies == "shared_adapter" and bool(started)
    return [sizes.adapter_parameters for name, sizes in policies if shared or name in started]


def _local(recipe: Recipe, name: str) -> TransformersModel:
    model = local_weights(recipe.model_of(name))
    if model is None:
        raise RecipeError(f"agent '{name}' has no local model")
    return model
