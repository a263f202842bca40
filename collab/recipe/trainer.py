"""How a team is trained. Defaults are those of MAGRPO, arXiv 2508.04652."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from collab.recipe.base import Spec
from collab.recipe.component import Component, Named
from collab.recipe.feedback import FeedbackSpec

Normalise = Literal["none", "group", "agent", "step"]
TokenWeighting = Literal["sum", "response_mean", "batch_mean"]
Policies = Literal["adapters", "shared_adapter", "full"]
TrackerName = Literal["trackio", "wandb", "tensorboard"]

FULL_RATE, ADAPTER_RATE = 1e-5, 1e-4


class LoraSpec(Spec):
    """The shape of every agent's adapter (LoRA, arXiv 2106.09685)."""

    rank: int = Field(default=16, ge=1)
    """r, the width of an adapter."""
    alpha: float = Field(default=32.0, gt=0)
    """An adapter's output is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ()
    """Names of the linear layers that are adapted, e.g. `q_proj`; none named takes them all."""


class PhaseSpec(Spec):
    """A phase of training with turns and feedback of its own."""

    steps: int = Field(ge=1)
    """Optimiser steps that the phase lasts."""
    turns: int = Field(ge=1)
    """H during the phase."""
    feedback: tuple[FeedbackSpec, ...] | None = None
    """Default: the team's."""


class EvaluationSpec(Spec):
    """Play on held-out tasks, before training and after it."""

    tasks: str = "test"
    """A split of the suite, or rows such as `133-163`."""
    every: int | None = Field(default=None, ge=1)
    """Also after every so many steps."""
    samples: int = Field(default=4, ge=1)
    """Episodes of each task under the training's own sampling settings."""
    greedy: bool = True
    """One more episode of each task at temperature 0."""


class TrainerSpec(Spec):
    name: str = ""
    description: str = ""

    algorithm: Named = Component(use="magrpo")
    """`magrpo` (mean baseline), `marloo` (leave-one-out), `maremax` (largest), `mareinforce`
    (none), or one's own, a function or a class: `file.py:NAME`, or a registered name. Options are
    given as `{use: NAME, options: {...}}`."""
    group_size: int = Field(default=4, ge=1)
    """G, episodes of one task that are compared with each other."""
    tasks: str | None = None
    """A split of the suite, or rows; default: its split `train`, else all of it."""
    tasks_per_step: int = Field(default=1, ge=1)
    """Groups whose gradients make one optimiser step."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the tasks, each in a new order."""
    steps: int | None = Field(default=None, ge=1)
    """Optimiser steps, in place of `epochs`."""

    discount: float = Field(default=1.0, gt=0.0, le=1.0)
    """gamma: R_t = r_t + gamma R_t+1."""
    normalise: Normalise = "none"
    """Divide advantages by their standard deviation: that of the episodes that are compared
    (`group`, GRPO), of each agent's within each task (`agent`, Dr. MAS), or of each agent's over
    all tasks of the step (`step`)."""
    joint_mode: Literal["aligned", "cross"] = "aligned"
    """`aligned` joins the g-th responses of all agents; `cross` scores all G^n combinations, and
    a response's reward is the mean over those that it is in."""
    turn_structure: Literal["chains", "tree"] = "chains"
    """`chains` plays G episodes; `tree` goes on from every joint action G times: G^turns leaves,
    R_t = r_t + gamma x mean of the children's R."""
    local_parts: dict[str, tuple[str, ...]] = {}
    """By agent: parts of the reward that are its own. r_i = team_weight x r + their points."""
    team_weight: float = Field(default=1.0, ge=0.0)
    """Weight of the joint reward in each agent's; 0 leaves the local parts alone."""

    token_weighting: TokenWeighting = "sum"
    """log pi of a response is the `sum` over its tokens (the paper), or their mean
    (`response_mean`); `batch_mean` divides the step's sum by all its tokens (DAPO)."""
    clip_ratio: float | None = Field(default=None, gt=0.0, lt=1.0)
    """PPO's epsilon, by token, against the log-probs of sampling; None does not clip."""
    inner_epochs: int = Field(default=1, ge=1)
    """Optimiser steps on the same episodes; more than 1 needs `clip_ratio`."""
    importance_cap: float | None = Field(default=None, gt=0.0)
    """Multiply each token's loss by trainer / sampler probability, at most this; None does not."""
    kl_coef: float = Field(default=0.0, ge=0.0)
    """Weight of the divergence from the policies that training began from (k3 estimator): the base
    model, or the agents' own adapters where they have some."""

    policies: Policies = "adapters"
    """`adapters`: one base model and a LoRA adapter for each agent. `shared_adapter`: one for
    all agents of a base model. `full`: a whole model for each agent; an agent's adapter is merged
    into it."""
    lora: LoraSpec = LoraSpec()

    learning_rate: float | None = Field(default=None, gt=0.0)
    """Default: 1e-5 for `full`, the paper's, and 1e-4 for adapters."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate goes on after the warm-up; `linear` and `cosine` end at 0."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from 0."""
    weight_decay: float = Field(default=0.01, ge=0.0)
    """AdamW's."""
    max_grad_norm: float | None = Field(default=None, gt=0.0)
    """Each policy's gradient is scaled down to this norm; None leaves it."""

    micro_batch_tokens: int = Field(default=2048, ge=1)
    """Tokens of one forward and backward pass, padding included; less takes less memory."""
    gradient_checkpointing: bool = False
    """Compute activations twice rather than keep them: far less memory, a third more time."""

    curriculum: tuple[PhaseSpec, ...] = ()
    """Phases that come first; after them the team's own turns and feedback hold."""
    evaluation: EvaluationSpec | None = None
    """Measuring the team on held-out problems; None for none."""

    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints; the last step always leaves one."""
    keep_checkpoints: int = Field(default=1, ge=1)
    """The newest that are kept, besides the best by evaluation."""
    max_dropped: float = Field(default=0.5, ge=0.0, le=1.0)
    """Share of a step's episodes that may fail; with more of them the step is skipped."""
    max_skipped_steps: int = Field(default=3, ge=0)
    """Steps in a row that may be skipped, as too many episodes failed or a loss or gradient was not
    finite; more end the training."""
    mismatch_tolerance: float = Field(default=0.1, gt=0.0)
    """Largest mean difference, in nats a token, of the sampler's and the trainer's log-probs."""
    report_to: tuple[TrackerName, ...] = ()
    """Trackers that get the metrics besides `metrics.jsonl`."""

    @property
    def rate(self) -> float:
        """The learning rate after the warm-up."""
        if self.learning_rate is not None:
            return self.learning_rate
        return FULL_RATE if self.policies == "full" else ADAPTER_RATE

    @model_validator(mode="after")
    def _groups_can_be_compared(self) -> TrainerSpec:
        if self.group_size == 1 and self.normalise in ("group", "agent"):
            raise ValueError(
                f"group_size 1 has no standard deviation for normalise '{self.normalise}'; set"
                " group_size to 2 or more, or normalise to 'none' or 'step'"
            )
        return self

    @model_validator(mode="after")
    def _loss_is_sound(self) -> TrainerSpec:
        if self.inner_epochs > 1 and self.clip_ratio is None:
            raise ValueError(
                f"inner_epochs {self.inner_epochs} moves the policy away from the one that"
                " sampled; set clip_ratio, e.g. 0.2, or inner_epochs to 1"
            )
        if self.team_weight == 0 and not self.local_parts:
            raise ValueError(
                "team_weight 0 leaves no reward at all; name each agent's own parts in local_parts"
            )
        return self
