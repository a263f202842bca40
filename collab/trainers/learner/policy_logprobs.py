"""Log-probabilities of responses under a policy as it is now, or as it was before training."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from collab.models.local.batching import pack
from collab.trainers.learner.logprobs import response_logprobs
from collab.trainers.learner.policy import Policy
from collab.trainers.learner.samples import Sample


@torch.no_grad()
def logprobs_of(
    policy: Policy, samples: Sequence[Sample], batch_tokens: int, *, reference: bool = False
) -> list[tuple[float, ...]]:
    """By sample: the log-probability of each of its tokens, in nats; without gradient.

    Batches are of `batch_tokens` at most, padding included. `reference` is the policy from before
    training.
    """
    found: dict[int, tuple[float, ...]] = {}
    with policy.reference() if reference else policy.training() as model:
        for batch in pack([(len(sample), 0) for sample in samples], batch_tokens):
            rows = [[samples[number]] for number in batch]
            scored = response_logprobs(model, rows, policy.device).logprobs
            pieces = torch.split(scored, [len(row[0].token_ids) for row in rows])
            found |= {n: tuple(p.tolist()) for n, p in zip(batch, pieces, strict=True)}
    return [found[number] for number in range(len(samples))]
