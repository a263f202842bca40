"""Responses with shared prefixes, and what a model learns from them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from collab.records import Sampling
from collab.trainers.learner.logprobs import response_logprobs
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import PackedSequence
from collab.trainers.learner.samples import Sample

CPU = torch.device("cpu")


def sample(prompt: tuple[int, ...], response: tuple[int, ...], temperature: float = 1.0) -> Sample:
    zeros, sampling = (0.0,) * len(response), Sampling(temperature=temperature)
    return Sample("a", prompt, response, zeros, sampling, weight=1.0, scale=1.0)


def samples() -> list[Sample]:
    """Two prompts, a later turn, shared prefixes, a single token, and duplicates."""
    first, second = (1, 2, 3, 4), (1, 2, 9)
    return [
        sample(first, (5, 6, 7), 0.5),
        sample(second, (5, 6, 7, 8, 9, 10)),
        sample(first, (5, 6, 8, 9)),
        sample(first, (7,), 2.0),
        sample((*first, 5, 6, 7, 3), (2, 1)),
        sample(first, (5, 6, 7), 0.5),
    ]


def logprobs_and_gradients(model: Any, rows: Sequence[PackedSequence]) -> Tensor:
    """The log-probabilities, and the gradients of their sum with a different weight per token."""
    logprobs = response_logprobs(model, rows, CPU).logprobs
    weights = torch.arange(1.0, len(logprobs) + 1, dtype=torch.float64)
    with tree_attention(model):
        gradients = torch.autograd.grad((weights * logprobs).sum(), list(model.parameters()))
    return torch.cat([logprobs.detach(), *(g.flatten() for g in gradients)])
