"""The policies that a step updates, their order, and the effect of earlier updates on later ones.

`simultaneous`  all policies learn, each from the weights that credit computed
`alternating`   one policy learns, and the others stay bitwise unchanged
`sequential`    HAPPO (arXiv 2109.11251): a new random order at every step. Policy i_m maximizes
                its objective with M A instead of A. M is the product, over the policies j updated
                before it, of pi_j,new(a_j) / pi_j,old(a_j), with a_j the response of j in the same
                joint action. For one turn, this is exactly the gradient of J at the policies as
                updated so far; for several turns, it is HAPPO's surrogate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from collab.recipe import TrainerSpec
from collab.seeds import seed_of
from collab.stats import mean
from collab.trainers.learner.base import Update
from collab.trainers.learner.policy import Policy
from collab.trainers.learner.samples import Sample

Measure = Callable[[Policy, Sequence[Sample]], list[float]]
"""Returns the log-probability of each of some complete responses under a policy's current state, in
nats."""

Joint = tuple[int, int, int]
"""Key of a joint action of a step: see `Sample.joint`."""


def updated_at(step: int, policies: Sequence[Policy], spec: TrainerSpec, seed: int) -> list[Policy]:
    """Return the policies that `step` (counted from 0) updates, in order."""
    if spec.update_order == "alternating":
        return [policies[step // spec.alternate_every % len(policies)]]
    order = list(policies)
    if spec.update_order == "sequential":
        random.Random(seed_of(seed, "update order", step)).shuffle(order)
    return order


def learned_by(policy: Policy, samples: Sequence[Sample], spec: TrainerSpec) -> list[Sample]:
    """Return the responses that the policy learns from."""
    of_policy = [s for s in samples if s.agent in policy.agents]
    return [s for s in of_policy if s.alive or spec.kl_coef]


class CompoundRatios:
    """M of every joint action of a step: the factor by which updated policies have made it
    likelier.

    A response has thousands of tokens, and the ratio of its probabilities is a product over all of
    them. M is therefore clamped between 1/cap and cap, which biases the gradient whenever it takes
    effect. Without `sequential`, M is 1.
    """

    def __init__(self, spec: TrainerSpec, measure: Measure) -> None:
        cap = spec.compound_ratio_cap
        self._limit = math.inf if cap is None else math.log(cap)
        self._spec, self._measure = spec, measure
        self._logs: dict[Joint, float] = {}

    def weighed(self, samples: Sequence[Sample]) -> list[Sample]:
        """Return the samples with M A instead of A. They are unchanged if no policy was updated
        earlier.
        """
        if not self._logs:
            return list(samples)
        return [_times(sample, self._of(sample)) for sample in samples]

    @contextmanager
    def following(
        self, policy: Policy, samples: Sequence[Sample], later: Sequence[Policy]
    ) -> Iterator[None]:
        """Context manager around an update of `policy`: tracks its effect on joint actions that
        `later` policies learn from.

        It makes two forward passes over the policy's responses.
        """
        theirs = {s.joint for other in later for s in learned_by(other, samples, self._spec)}
        shared = [s for s in samples if s.agent in policy.agents and s.joint in theirs]
        if self._spec.update_order != "sequential" or not shared:
            yield
            return
        before = self._measure(policy, shared)
        yield
        after = self._measure(policy, shared)
        for sample, old, new in zip(shared, before, after, strict=True):
            self._logs[sample.joint] = self._logs.get(sample.joint, 0.0) + new - old

    def tell(self, update: Update, policy: Policy, samples: Sequence[Sample]) -> None:
        """Record a policy's statistics before it learns from `samples`."""
        if self._spec.update_order != "simultaneous":
            update.order[policy.name] = len(update.order) + 1
        if self._spec.update_order == "sequential":
            update.compound_ratios[policy.name] = mean([self._of(s) for s in samples])

    def _of(self, sample: Sample) -> float:
        log = self._logs.get(sample.joint, 0.0)
        return math.exp(max(-self._limit, min(self._limit, log)))


def _times(sample: Sample, ratio: float) -> Sample:
    by_token = tuple(ratio * weight for weight in sample.token_weights)
    return replace(sample, weight=ratio * sample.weight, token_weights=by_token)
