"""Settings of the training. The defaults are those of MAGRPO, arXiv 2508.04652."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from collab.recipe.base import Component, NamedComponent, Spec
from collab.recipe.feedback import FeedbackSpec
from collab.recipe.team import MAX_TURNS

MAX_RANK = 1024
"""Limit on an adapter's rank, read or trained. Larger ranks could take any amount of memory."""


def _parse_local_parts(value: Any) -> Any:
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    return dict.fromkeys(value) if is_list else value


LocalParts = Annotated[
    dict[str, float | None],
    BeforeValidator(
        _parse_local_parts, json_schema_input_type=tuple[str, ...] | dict[str, float | None]
    ),
]
"""Maps a reward part to its weight for one agent, or to None for its weight in the reward."""


class LoraSpec(Spec):
    """The shape of new adapters (LoRA, arXiv 2106.09685). An agent's own one keeps its shape."""

    rank: int = Field(default=16, ge=1, le=MAX_RANK)
    """r, the width of an adapter."""
    alpha: float = Field(default=32.0, gt=0)
    """An adapter's output is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ()
    """Names of the linear layers to adapt, e.g. `q_proj`. An empty list means all but the head, and
    in a mixture of experts those of attention."""


class EvaluationSpec(Spec):
    """Run held-out tasks, before training and after it."""

    tasks: str = "test"
    """Held-out tasks: a split of the suite, or rows such as `133-163`."""
    every: int | None = Field(default=None, ge=1)
    """Steps between further evaluations."""
    every_tokens: int | None = Field(default=None, ge=1)
    """Training tokens between further evaluations. An evaluation follows the first step that
    reaches each multiple."""
    samples: int = Field(default=4, ge=1)
    """Episodes per task with the sampling settings of training."""
    greedy: bool = True
    """Run one more episode per task, with the trained agents at temperature 0."""


class PhaseSpec(Spec):
    """A phase of training with its own turns and feedback."""

    steps: int = Field(ge=1)
    """Steps in the phase."""
    turns: int = Field(ge=1, le=MAX_TURNS)
    """H, the turns of an episode during the phase."""
    feedback: tuple[FeedbackSpec, ...] | None = None
    """Feedback during the phase. Default: the team's."""


Normalize = Literal["none", "group", "agent", "step"]
TokenWeighting = Literal["sum", "response_mean", "batch_tokens", "constant"]
TurnStructure = Literal["chains", "tree", "greedy"]
Objective = Literal["reinforce", "ppo", "gspo", "cispo"]
UpdateOrder = Literal["simultaneous", "alternating"]
PolicyKind = Literal["adapters", "shared_adapter", "full"]
TrackerName = Literal["trackio", "wandb", "tensorboard", "mlflow"]

FULL_RATE, ADAPTER_RATE = 1e-5, 1e-4
TOLERANCE, STALE_TOLERANCE = 0.1, 1.0
STALE_IMPORTANCE_CAP = 2.0


class TrainerSpec(Spec):
    """Settings of the training."""

    renamed = {
        "normalise": "normalize",
        "episodes": "learn_from",
        "ranks.limit": "rank_timeout",
        "report_samples": "report_episodes",
    }
    removed = {
        "joint_mode": ("aligned", ", and set algorithm to 'cross', which has less noise"),
        "compile_layers": (False, ""),
        "compound_ratio_cap": (2.0, ""),
        "filter": (None, ", and name the tasks to train on in tasks"),
        "levels": (None, ", and train on easy tasks first, then train that team on harder ones"),
        "head_chunk_tokens": (None, ", and lower micro_batch_tokens to save memory"),
        "max_dropped": (0.5, ""),
        "max_skipped_steps": (3, ""),
        "ranks.shard": (False, ", and set model.load_in to 4bit for a base that does not fit"),
        "ranks.play_limit": (86400.0, ""),
    }

    name: str = ""
    description: str = ""

    algorithm: NamedComponent = Component(use="magrpo")
    """The algorithm that computes each response's weight, e.g. `cross`; `collab trainers` lists
    them. Your own function or class: `file.py:NAME`, or a registered name. Options are given as
    `{use: NAME, options: {...}}`."""
    group_size: int = Field(default=4, ge=1)
    """G, the number of episodes per task that are compared with each other."""
    tasks: str | None = None
    """Training tasks: a split of the suite, or rows. Default: the split `train`, or all rows."""
    tasks_per_step: int = Field(default=1, ge=1)
    """Tasks per step, each with a group of episodes."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the tasks, each in a new order."""
    steps: int | None = Field(default=None, ge=1)
    """Number of training steps. It replaces `epochs`."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens to generate in training, over all agents. They replace `epochs`. The step that reaches
    them is the last. If `steps` is set too, whichever limit is reached first ends the training."""

    discount: float = Field(default=1.0, gt=0.0, le=1.0)
    """Discount gamma: R_t = r_t + gamma R_t+1."""
    normalize: Normalize = "none"
    """Divide advantages by a standard deviation: over the compared episodes (`group`, GRPO), per
    agent within each task (`agent`, Dr. MAS), or per agent over all tasks of the step (`step`)."""
    turn_structure: TurnStructure = "chains"
    """`chains` runs G episodes. `tree` branches G times at every joint action: G^turns leaves, R_t
    = r_t + gamma x mean of the children's R. `greedy` branches G times from the best joint action
    of each turn only and compares joint actions by their own rewards: R_t = r_t."""
    local_parts: dict[str, LocalParts] = {}
    """Maps an agent to its own reward parts: r_i = team_weight x r + the points of these parts.
    They are a list, or a mapping to weights that differ from those in r."""
    team_weight: float = Field(default=1.0, ge=0.0)
    """Weight of the joint reward in each agent's reward. A value of 0 leaves only the local
    parts."""

    objective: Objective | None = None
    """The objective of each token, given its response's weight A. `reinforce`: A log pi (the
    paper); `ppo`: the clipped ratio r A; `gspo`: the same with the response's mean ratio; `cispo`:
    A log pi times the bounded ratio. Default: `reinforce`, or `ppo` if `clip_ratio` is set."""
    token_weighting: TokenWeighting = "sum"
    """log pi of a response is the `sum` over its tokens (the paper) or their mean
    (`response_mean`). `batch_tokens` divides it by all tokens of the agent in the step (DAPO),
    `constant` by the agent's max_new_tokens (Dr. GRPO)."""
    clip_ratio: float | None = Field(default=None, gt=0.0, lt=1.0)
    """Epsilon of the clip: ratios to the sampling policy are clipped below 1 - epsilon and above 1
    + epsilon. About 0.2 for `ppo`, 0.0003 for `gspo`."""
    clip_ratio_high: float | None = Field(default=None, gt=0.0)
    """Epsilon above 1, if it differs, e.g. DAPO's 0.28. `cispo` uses only this one."""
    inner_epochs: int = Field(default=1, ge=1)
    """Optimizer steps per training step, on the same episodes. More than 1 needs a clip, except for
    `sft`."""
    update_order: UpdateOrder = "simultaneous"
    """`simultaneous`: every agent learns from the same weights (MAGRPO). `alternating`: one agent
    learns at a time, in the order of the team, while the others stay unchanged."""
    alternate_every: int = Field(default=1, ge=1)
    """With `alternating`: steps that one agent learns before the next agent's turn."""
    importance_cap: float | None = Field(default=None, gt=0.0)
    """Multiply each token's loss by the ratio of trainer to sampler probability, capped at this
    value. None: no correction."""
    importance_band: tuple[float, float] | None = None
    """Multiply each token's loss by the ratio of trainer to sampler probability if it is between
    these numbers, otherwise by 0 (IcePop), e.g. [0.5, 5]."""
    sequence_limit: float | None = Field(default=None, gt=0.0)
    """Skip responses with a larger product of trainer-to-sampler ratios than this, e.g. 3."""
    max_staleness: Literal[0, 1] = 0
    """Number of steps that the sampling policy may be behind the learning one. With 1, vLLM samples
    the next step while the trainer learns, and `importance_cap` is 2 if no correction is set."""
    kl_coef: float = Field(default=0.0, ge=0.0)
    """Weight of the KL divergence from the initial policies (k3 estimator): the base model, or the
    agents' own adapters if they have any."""

    policies: PolicyKind = "adapters"
    """`adapters`: one base model and one LoRA adapter per agent. `shared_adapter`: one adapter for
    all agents of a base model. `full`: one whole model per agent, with the agent's adapter merged
    into it."""
    lora: LoraSpec = LoraSpec()

    learning_rate: float | None = Field(default=None, gt=0.0)
    """Peak learning rate. Default: 1e-5 for `full`, as in the paper, and 1e-4 for adapters."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate schedule after the warm-up. `linear` and `cosine` would reach 0 one step
    after the last."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from 0."""
    weight_decay: float = Field(default=0.01, ge=0.0)
    """Weight decay of AdamW."""
    max_grad_norm: float | None = Field(default=None, gt=0.0)
    """Largest gradient norm of a policy. Larger gradients are scaled down. None: no limit."""

    micro_batch_tokens: int | None = Field(default=None, ge=1)
    """Tokens per forward and backward pass, padding included. Lower it to save memory. Default:
    2,048 on a CPU, and on a GPU as many as the free memory holds, up to 32,768."""
    tree_attention: Literal["auto", "varlen", "mask"] = "auto"
    """Attention over responses with a common beginning. `varlen`: one call of flash attention per
    layer, on GPUs of compute capability 8.0 and later, in bfloat16 or float16. `mask`: attention
    masks, on any device. `auto` takes `varlen` if its numbers match those of `mask`."""
    gradient_checkpointing: bool | Literal["auto"] = "auto"
    """Recompute activations in the backward pass, which needs far less memory and a third more
    time. `auto` does so on GPUs whose memory could otherwise hold too few tokens, and never on a
    CPU."""

    curriculum: tuple[PhaseSpec, ...] = ()
    """Phases at the start of training. After them, the team's own turns and feedback apply."""
    learn_from: str | None = None
    """Learn from these episodes instead of new ones, with `algorithm: sft`: the folder of a run, or
    an `episodes.jsonl`. Only episodes of training tasks count, up to `group_size` per task and
    step."""
    evaluation: EvaluationSpec | None = None
    """Evaluation of the team on held-out tasks. None skips it."""

    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints. The last step always saves one."""
    keep_checkpoints: int = Field(default=1, ge=1)
    """Number of newest checkpoints to keep, in addition to the best one by evaluation."""
    mismatch_tolerance: float | None = Field(default=None, gt=0.0)
    """Largest mean difference between the sampler's and the trainer's log-probs, in nats per token.
    Default: 0.1, and 1 with max_staleness 1, because the trainer is then one step ahead of the
    sampler."""
    rank_timeout: float = Field(default=1800.0, gt=0.0)
    """Longest time, in seconds, that a rank, a process of a training run on several GPUs, waits for
    another one. After that, training ends with an error that names the rank."""
    report_to: tuple[TrackerName, ...] = ()
    """Trackers that receive the metrics, in addition to `metrics.jsonl`."""
    report_episodes: int = Field(default=4, ge=0)
    """Number of episodes to send to the trackers as a table of responses and returns, at the first
    step and every tenth. With 0, no response leaves the run's folder."""

    @property
    def min_complete(self) -> int:
        """Fewest complete episodes with which a group can be compared."""
        return min(2, self.group_size)

    @property
    def rate(self) -> float:
        """The learning rate after the warm-up."""
        if self.learning_rate is not None:
            return self.learning_rate
        return FULL_RATE if self.policies == "full" else ADAPTER_RATE

    @property
    def effective_objective(self) -> Objective:
        """The objective, with its default resolved."""
        if self.objective is not None:
            return self.objective
        return "reinforce" if self.clip_ratio is None else "ppo"

    @property
    def has_correction(self) -> bool:
        """True if a correction for a differing sampler is set."""
        corrections = (self.effective_cap, self.importance_band, self.sequence_limit)
        return any(value is not None for value in corrections)

    @property
    def effective_cap(self) -> float | None:
        """`importance_cap`, with its default resolved."""
        chosen = (self.importance_cap, self.importance_band, self.sequence_limit)
        stale = self.max_staleness > 0 and all(value is None for value in chosen)
        return STALE_IMPORTANCE_CAP if stale else self.importance_cap

    @property
    def effective_tolerance(self) -> float:
        """`mismatch_tolerance`, with its default resolved."""
        if self.mismatch_tolerance is not None:
            return self.mismatch_tolerance
        return STALE_TOLERANCE if self.max_staleness else TOLERANCE

    @model_validator(mode="before")
    @classmethod
    def _flatten_former_ranks(cls, data: Any) -> Any:
        """Replace the former section `ranks` by keys such as `ranks.limit`."""
        if not isinstance(data, dict) or not isinstance(data.get("ranks"), dict):
            return data
        flat: dict[str, Any] = {}
        for key, value in data.items():  # in order, because the last of two names counts
            flat |= {f"ranks.{k}": v for k, v in value.items()} if key == "ranks" else {key: value}
        return flat

    @field_validator("token_weighting", mode="before")
    @classmethod
    def _read_older_recipes(cls, value: Any) -> Any:
        """Rename `batch_mean` of older recipes to `batch_tokens`."""
        return "batch_tokens" if value == "batch_mean" else value

    def _faults(self) -> Iterator[str]:
        if self.group_size == 1 and self.normalize in ("group", "agent"):
            yield (
                f"group_size 1 has no standard deviation for normalize '{self.normalize}'; set"
                " group_size to 2 or more, or normalize to 'none' or 'step'"
            )
        if self.update_order != "simultaneous" and self.policies == "shared_adapter":
            yield (
                f"update_order '{self.update_order}' needs agents with their own parameters, but"
                " with policies 'shared_adapter' they share them; set policies to 'adapters', or"
                " update_order to 'simultaneous'"
            )
        if self.tokens and not self.steps and self.schedule != "constant":
            yield (
                f"schedule '{self.schedule}' falls until the last step, and with tokens"
                f" {self.tokens} the last step is unknown; set steps too, or schedule to"
                " 'constant'"
            )
        if self.learn_from is not None:
            yield from self._faults_of_recorded_episodes()
        if self.team_weight == 0 and not self.local_parts:
            yield "team_weight 0 leaves no reward; name each agent's own parts in local_parts"
        yield from self._faults_of_objective()
        yield from self._faults_of_corrections()

    def _faults_of_recorded_episodes(self) -> Iterator[str]:
        if self.algorithm.use != "sft":
            yield (
                "training on recorded episodes maximizes their likelihood, but algorithm"
                f" '{self.algorithm.use}' needs new episodes of the team; set algorithm to"
                " 'sft', or leave out learn_from"
            )
        corrects = self.has_correction and not self.max_staleness  # which implies a correction
        asks = {key: getattr(self, key) for key in ("tokens", "max_staleness")}
        for key, value in {**asks, "a correction for the sampler": corrects}.items():
            if value:
                yield f"with `learn_from`, nothing is sampled, so {key} has no effect; leave it out"

    def _faults_of_objective(self) -> Iterator[str]:
        objective, low, high = self.effective_objective, self.clip_ratio, self.clip_ratio_high
        if self.inner_epochs > 1 and objective == "reinforce" and self.algorithm.use != "sft":
            yield (
                f"inner_epochs {self.inner_epochs} trains on episodes of an older policy; set"
                " objective to ppo and clip_ratio to e.g. 0.2, or inner_epochs to 1"
            )
        if objective == "reinforce" and (low or high):
            yield (
                "objective 'reinforce' has no ratio to clip; set objective to ppo, gspo or cispo,"
                " or leave out clip_ratio and clip_ratio_high"
            )
        if objective in ("ppo", "gspo") and low is None:
            usual = "0.2" if objective == "ppo" else "0.0003"
            yield f"objective '{objective}' needs clip_ratio, e.g. {usual}"
        if objective == "cispo" and (low is not None or high is None):
            yield (
                "objective 'cispo' bounds ratios from above only; set clip_ratio_high, e.g. 4.0,"
                " and leave out clip_ratio"
            )

    def _faults_of_corrections(self) -> Iterator[str]:
        if self.importance_band is None:
            return
        low, high = self.importance_band
        if not 0 <= low < 1 < high:
            yield (
                f"importance_band [{low:g}, {high:g}] must contain 1, the ratio of a sampler that"
                " agrees with the trainer; e.g. [0.5, 5]"
            )
        if self.importance_cap is not None:
            yield "importance_cap and importance_band both multiply a token by its ratio; set one"
