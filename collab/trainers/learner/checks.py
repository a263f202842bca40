"""Checks after a policy's passes: log-probabilities match the sampler's, and parameters change."""

from __future__ import annotations

from collab.errors import TrainingError
from collab.recipe import TrainerSpec
from collab.runs import metric_names as names
from collab.trainers.learner.policy import Policy
from collab.trainers.learner.update import TOKENS, Update

Fingerprint = list[tuple[float, float]]


def check_mismatch(policy: Policy, update: Update, spec: TrainerSpec) -> None:
    """Check that the trainer's log-probabilities agree with the sampler's."""
    for agent in policy.agents:
        sums = update.sums.get(agent)
        mismatch = sums[names.AGENT_MISMATCH] / sums[TOKENS] if sums else 0.0
        if not mismatch <= spec.effective_tolerance:
            staleness_hint = (
                ". With max_staleness 1, one step of learning is part of the difference: lower"
                " trainer.learning_rate, or set max_staleness to 0"
            )
            raise TrainingError(
                f"agent '{agent}': the sampler's and the trainer's log-probabilities differ by"
                f" {mismatch:.3g} nats per token, more than trainer.mismatch_tolerance"
                f" {spec.effective_tolerance:g}. Sampler and trainer use different weights, or"
                " rounding is too coarse. float32 agrees to 1e-4, bfloat16 mostly to 0.03: set"
                " model.dtype to float32, or raise trainer.mismatch_tolerance and set"
                " trainer.importance_cap; if float32 shows the same difference, check that both"
                f" hold the same adapter{staleness_hint if spec.max_staleness else ''}"
            )


def check_change(policy: Policy, before: Fingerprint, update: Update) -> None:
    """Check that a policy's first step changed its parameters from `before`.

    A gradient may be 0, e.g. if all responses of an agent are equal.
    """
    norm = update.gradient_norms[policy.name]
    has_gradient = any(p.grad is not None for p in policy.acting_parameters())
    if update.rate > 0 and (norm or has_gradient) and fingerprint(policy) == before:
        raise TrainingError(
            f"policy '{policy.name}' did not change in its first step (gradient norm {norm:g},"
            f" learning rate {update.rate:g}): the update is smaller than the parameters'"
            " rounding, or the optimizer has other parameters; raise trainer.learning_rate"
        )


def fingerprint(policy: Policy) -> Fingerprint:
    """Return the sum and the absolute sum of each parameter of the acting model.

    They differ after an update, except if its changes cancel out exactly.
    """
    return [
        (float(p.detach().double().sum()), float(p.detach().double().abs().sum()))
        for p in policy.acting_parameters()
    ]
