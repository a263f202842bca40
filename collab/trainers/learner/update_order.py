"""Which policies a step moves, in which order, and what the earlier ones change for the later.

`simultaneous`  every policy learns from the weights as credit gave them
`alternating`   one policy learns, the others stay bit for bit as they are
`sequential`    HAPPO (arXiv 2109.11251): a random order, new at every step. Policy i_m maximises
                its objective with M A in place of A, M = product over the policies j that were
                updated before it of pi_j,new(a_j) / pi_j,old(a_j), a_j what j said in the same
                joint action. On one turn that is exactly the gradient of J where the others
                already act by their new policies; of several turns it is HAPPO's surrogate.
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
"""The log-probability of each of some whole responses under a policy as it is now, in nats."""

Joint = tuple[int, int, int]
"""A joint action of a step: see `Sample.joint`."""


def updated_at(step: int, policies: Sequence[Policy], spec: TrainerSpec, seed: int) -> list[Policy]:
    """The policies that `step`, counted from 0, moves, in the order in which they are moved."""
    if spec.update_order == "alternating":
        return [policies[step // spec.alternate_every % len(policies)]]
    order = list(policies)
    if spec.update_order == "sequential":
        random.Random(seed_of(seed, "update order", step)).shuffle(order)
    return order


def learned_by(policy: Policy, samples: Sequence[Sample], spec: TrainerSpec) -> list[Sample]:
    """The responses that the policy learns from."""
    of_policy = [s for s in samples if s.agent in policy.agents]
    return [s for s in of_policy if s.alive or spec.kl_coef]


class CompoundRatios:
    """M of every joint action of a step: how much likelier the updated policies have made it.

    A response has thousands of tokens, and the ratio of its probabilities is a product over all of
    them; so M is held between 1/cap and cap, which biases the gradient where it happens. Without
    `sequential` M is 1.
    """

    def __init__(self, spec: TrainerSpec, measure: Measure) -> None:
        cap = spec.compound_ratio_cap
        self._limit = math.inf if cap is None else math.log(cap)
        self._spec, self._measure = spec, measure
        self._logs: dict[Joint, float] = {}

    def weighed(self, samples: Sequence[Sample]) -> list[Sample]:
        """The samples with M A in place of A; as they are where nobody was updated before."""
        if not self._logs:
            return list(samples)
        return [_times(sample, self._of(sample)) for sample in samples]

    @contextmanager
    def following(
        self, policy: Policy, samples: Sequence[Sample], later: Sequence[Policy]
    ) -> Iterator[None]:
        """While `policy` is updated: what that does to joint actions that `later` ones learn from.

        It takes two forward passes over the policy's responses.
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
        """Add what is told of a policy before it learns from `samples`."""
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
