"""Whether learning does what it should: on the sampler's model, and on parameters that act."""

from __future__ import annotations

from collections.abc import Sequence

from collab.errors import TrainingError
from collab.recipe import TrainerSpec
from collab.trainers.learner.policy import Policy
from collab.trainers.learner.update import Pass, Update, most_on

STALE_HINT = (
    ". With max_staleness 1 what a step learns is a part of it: lower trainer.learning_rate, or set"
    " max_staleness to 0"
)

Fingerprint = list[tuple[float, float]]


def check_mismatch(
    policy: Policy, update: Update, passes: Sequence[Pass], spec: TrainerSpec, world: int
) -> None:
    """Raise TrainingError where the trainer's log-probabilities are not the sampler's."""
    for agent in policy.agents:
        sums = update.sums.get(agent)
        mismatch = sums.mismatch / sums.tokens if sums else 0.0
        if not mismatch <= spec.tolerance_used:
            raise TrainingError(
                f"agent '{agent}': the sampler's and the trainer's log-probabilities differ by"
                f" {mismatch:.3g} nats a token, more than"
                f" trainer.mismatch_tolerance {spec.tolerance_used:g}"
                f"{most_on(passes, agent) if world > 1 else ''}: the model that"
                " sampled is not the one that is trained, or rounding is too coarse for it."
                " float32 agrees to 1e-4, bfloat16 mostly to 0.03: set model.dtype to float32,"
                " or raise trainer.mismatch_tolerance and set trainer.importance_cap; if it is"
                " as large in float32, check that both hold the same adapter"
                f"{STALE_HINT if spec.max_staleness else ''}"
            )


def check_change(policy: Policy, before: Fingerprint, update: Update) -> None:
    """Raise TrainingError where a policy's first step has left it as it was `before`."""
    if update.rate > 0 and fingerprint(policy) == before:
        norm = update.gradient_norms[policy.name]
        raise TrainingError(
            f"policy '{policy.name}' did not change in its first step (gradient norm {norm:g},"
            f" learning rate {update.rate:g}): the optimiser does not hold the parameters that"
            " act, or the rate is below their rounding; raise trainer.learning_rate"
        )


def fingerprint(policy: Policy) -> Fingerprint:
    """Changes when a parameter in the acting model does."""
    return [
        (float(p.detach().double().sum()), float(p.detach().double().abs().sum()))
        for p in policy.acting_parameters()
    ]
