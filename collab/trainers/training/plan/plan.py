"""Plans a training run: steps, tokens, memory and disk, before any work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

from collab.recipe import EvaluationSpec, Recipe, TaskSpec, TrainerSpec
from collab.recipe.model import VLLMSpec
from collab.rewards.declared import describe_scoring
from collab.runtime.prompt_check import max_episode_usage, max_move_responses
from collab.runtime.rehearsal import describe_rounds
from collab.sandbox import describe_concurrency
from collab.trainers.credit import algorithm_for
from collab.trainers.learner.device_sizes import check_device
from collab.trainers.training.check import check_phase_prompts, check_recipe, describe_trainer
from collab.trainers.training.data import choose_tasks
from collab.trainers.training.plan.cards import Card, local_card
from collab.trainers.training.plan.memory import (
    MEMORY_LABELS,
    count_memory,
    lengths_of,
    may_sleep,
    step_episodes,
)
from collab.wording import counted


@dataclass(frozen=True)
class CardFit:
    """Sizes on one GPU, or on several of the same kind."""

    card: str
    memory: int
    """Memory of the GPU in bytes."""
    fits: bool
    """True if the GPU has enough memory for the run."""
    micro_batch_tokens: int
    gradient_checkpointing: bool


MIN_SHOWN_BYTES = 500_000
"""Smallest number of bytes that a plan shows, because less would be 0.000 GB."""


@dataclass
class Plan:
    """Counts of a training run, and its memory in bytes by part."""

    trainer: str
    """The main settings of the trainer, in words."""
    steps: int
    """Number of steps, or the minimum number that reaches the tokens that end the run."""
    episodes_per_step: int
    responses_per_step: int
    tokens_per_step: int
    """Maximum number of prompt and new tokens, of all trained responses."""
    training_tasks: int
    held_out_tasks: int
    unused_split: str = ""
    """The suite's split of held-out tasks, if the recipe evaluates on none."""
    tokens: int | None = None
    """Number of generated tokens that ends the run, if a limit is set."""
    update_tokens_per_step: int = 0
    """Maximum number of tokens to compute for learning. Tokens that responses share count once."""
    credit: list[str] = field(default_factory=list)
    """The algorithm's description of the credit for this team."""
    overlap: list[str] = field(default_factory=list)
    """The sampling that overlaps with learning, and its correction."""
    rounds: list[str] = field(default_factory=list)
    """The order in which agents act."""
    outlook: list[str] = field(default_factory=list)
    """The agents that write the answer, and its possible reward."""
    parameters: int = 0
    trainable: int = 0
    memory: dict[str, int] = field(default_factory=dict)
    checkpoints: int = 0
    """Maximum number of checkpoints on the disk, including one that is being written."""
    disk: int = 0
    """Maximum size of the checkpoints and the trained team, in bytes."""
    ranks: int = 1
    """Number of processes that learn together. Memory is that of one of them."""
    sleeps: bool = False
    """True if vLLM releases its memory while the trainer learns."""
    on_card: CardFit | None = None
    """A step on the requested GPU."""
    scoring: str = ""
    """Number of programs scored at the same time, and where, or "" if there are none."""
    warnings: list[str] = field(default_factory=list)
    """Settings that will not work as intended."""

    @property
    def total(self) -> int:
        return sum(self.memory.values())

    def text(self) -> str:
        """Return the plan as text, with one fact per line."""
        share = self.trainable / self.parameters if self.parameters else 0.0
        end = counted(self.steps, "step")
        if self.tokens is not None:
            end = f"{self.tokens:,} generated tokens, {end} or more"
        unused = ""
        if self.unused_split:
            unused = (
                f"; the split {self.unused_split} is not used, set"
                f" 'trainer.evaluation={{tasks: {self.unused_split}}}' to evaluate on it"
            )
        lines = [
            self.trainer,
            f"{end}, {counted(self.training_tasks, 'task')} to train on,"
            f" {self.held_out_tasks:,} held out{unused}",
            f"per step: {counted(self.episodes_per_step, 'episode')},"
            f" {counted(self.responses_per_step, 'response')}, at most {self.tokens_per_step:,}"
            f" tokens, of which the update computes {self.update_tokens_per_step:,}",
            *self.overlap,
            *self.rounds,
            *self.outlook,
            *([f"scoring: {self.scoring}"] if self.scoring else []),
            *self.credit,
            f"parameters: {self.parameters:,}, trained {self.trainable:,} ({share:.2%})",
            f"memory: {self.total / 1e9:.2f} GB"
            + (f" for each of {self.ranks} ranks" if self.ranks > 1 else ""),
            *(
                f"  {MEMORY_LABELS[name]:<27} {size / 1e9:>7.3f} GB"
                for name, size in self.memory.items()
                if size >= MIN_SHOWN_BYTES
            ),
            f"disk: {self.disk / 1e9:.2f} GB, {self.checkpoints} checkpoints and the team",
        ]
        if gpu := self.on_card:
            twice = "computed twice" if gpu.gradient_checkpointing else "kept"
            lines += [
                f"on {gpu.card}: {'fits' if gpu.fits else 'does not fit'}, {self.total / 1e9:.1f}"
                f" of {gpu.memory / 1e9:.1f} GB per GPU",
                f"  learning: micro-batches of {gpu.micro_batch_tokens:,} tokens, activations"
                f" {twice}",
                *(["  vLLM sleeps while the trainer learns"] if self.sleeps else []),
            ]
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])


def make_plan(recipe: Recipe, card: Card | None = None, ranks: int = 1) -> Plan:
    """Return the plan of a training run in `ranks` processes: on this machine, or on GPUs like
    `card`.

    The memory is that of one process or its GPU, which holds every local model. Frozen teammates
    count only with their weights. Sampling and learning alternate, so only the larger of the two
    counts.

    Raises:
        RecipeError, TaskError: the recipe cannot be trained.
        ModelUnavailable: a model's configuration is not available.
    """
    spec = check_recipe(recipe)
    tasks = choose_tasks(recipe, spec)
    played = check_phase_prompts(recipe, spec, tasks)
    turn = played.turn
    per_step = min(spec.tasks_per_step, len(tasks.training))
    spec = spec.model_copy(update={"tasks_per_step": per_step})
    lengths = lengths_of(played.requests, spec, recipe.team.trained)
    planned = [
        (item, item.responses * max_move_responses(recipe, agent))
        for agent, items in lengths.items()
        for item in items
    ]
    needs = count_memory(recipe, spec, lengths, card, ranks)
    for kind in needs.devices:
        check_device(spec, kind)
    episodes = step_episodes(played.requests, spec)
    steps = tasks.total_steps(spec)
    if spec.tokens is not None:
        step_tokens = episodes * max_episode_usage(recipe, played.requests)[1]
        steps = min(steps, ceil(spec.tokens / max(1, step_tokens)))
    checkpoints = min(spec.keep_checkpoints + (spec.evaluation is not None), steps + 1) + 1
    plan = Plan(
        trainer=describe_trainer(recipe, spec, tasks),
        steps=steps,
        tokens=spec.tokens,
        episodes_per_step=episodes,
        responses_per_step=sum(responses for _, responses in planned),
        tokens_per_step=sum(responses * (item.prompt + item.new) for item, responses in planned),
        update_tokens_per_step=sum(
            item.tokens + (responses - item.responses) * item.new for item, responses in planned
        ),
        training_tasks=len(tasks.training),
        held_out_tasks=len(tasks.held_out),
        unused_split=_unused_split(spec, tasks.suite),
        rounds=describe_rounds(turn, recipe.team.turns),
        outlook=describe_scoring(recipe, turn.joined if turn.is_chosen else None),
        warnings=list(played.warnings),
        credit=[
            *_describe_local_parts(recipe, spec),
            *algorithm_for(spec.algorithm).describe(recipe, spec),
        ],
        overlap=_describe_overlap(spec),
        scoring=describe_concurrency(recipe.sandbox) if recipe.uses_sandbox else "",
        parameters=needs.parameters,
        trainable=sum(count for count, _ in needs.trained),
        memory=needs.memory,
        checkpoints=checkpoints,
        disk=_disk_bytes(checkpoints, needs.trained),
        ranks=ranks,
        sleeps=needs.sleeps,
    )
    if card is not None:
        least = min(needs.chosen.values(), key=lambda chosen: chosen.micro_batch_tokens)
        plan.on_card = CardFit(
            card=card.name if ranks == 1 else f"{ranks} x {card.name}",
            memory=card.memory,
            fits=plan.total <= card.memory,
            micro_batch_tokens=least.micro_batch_tokens,
            gradient_checkpointing=least.gradient_checkpointing,
        )
    return plan


def with_sleeping_engines(recipe: Recipe, spec: TrainerSpec, ranks: int) -> Recipe:
    """Let vLLM sleep while the trainer learns if a GPU cannot hold both. Return the recipe."""
    import torch

    is_open = may_sleep(recipe, spec, ranks) and torch.cuda.is_available()
    if not is_open or not make_plan(recipe, local_card(0)).sleeps:
        return recipe
    models = {name: recipe.model_of(name) for name in recipe.team.agents}
    changes = {
        name: {"model": model.model_copy(update={"sleep": True})}
        for name, model in models.items()
        if isinstance(model, VLLMSpec) and model.sleep is None
    }
    return recipe.with_agents(changes)


def _unused_split(spec: TrainerSpec, suite: TaskSpec) -> str:
    """Return the split that an evaluation could use, if the recipe has no evaluation."""
    split = EvaluationSpec().tasks
    return split if spec.evaluation is None and split in suite.splits else ""


def _describe_local_parts(recipe: Recipe, spec: TrainerSpec) -> Iterator[str]:
    for agent in recipe.team.trained if spec.local_parts else ():
        terms = [f"{spec.team_weight:g} x reward"]
        for name, weight in spec.local_parts.get(agent, {}).items():
            terms.append(name if weight is None else f"{weight:g} x {name}")
        yield f"{agent} earns: {' + '.join(terms)}"


def _describe_overlap(spec: TrainerSpec) -> list[str]:
    if not spec.max_staleness:
        return []
    options = {
        "importance_cap": spec.effective_cap,
        "importance_band": spec.importance_band and list(spec.importance_band),
        "sequence_limit": spec.sequence_limit,
    }
    chosen = ", ".join(f"{key} {value}" for key, value in options.items() if value is not None)
    return [
        "overlap: the next step is sampled while one is learned, by policies one step older"
        f" (max_staleness {spec.max_staleness}), which {chosen} corrects for; a resumed run is not"
        " bit-identical"
    ]


def _disk_bytes(checkpoints: int, trained: Sequence[tuple[int, int]]) -> int:
    """Return the disk space. `trained` are each policy's parameters, and the bytes of one."""
    team = sum(count * size for count, size in trained)
    state = sum(count * (8 if size >= 4 else 12) for count, size in trained)
    return checkpoints * (team + state) + 2 * team  # the team is replaced as a whole
