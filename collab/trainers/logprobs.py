"""Log-probabilities of response tokens; [batch, time, vocabulary] is never held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from collab.trainers.samples import Sample

CHUNK_ELEMENTS = 1 << 24
"""Logits that are held at once: tokens x vocabulary."""


def response_logprobs(model: Any, samples: Sequence[Sample], device: torch.device) -> Tensor:
    """Log-probability of every response token of `samples`, one after the other: [tokens].

    Under each sample's own temperature. `model` is a causal language model of transformers. The
    rows are padded on the right, where causal attention keeps padding out of what counts.
    """
    width = max(len(sample) for sample in samples)
    ids = torch.zeros(len(samples), width, dtype=torch.long)  # [batch, time]
    rows: list[int] = []
    columns: list[int] = []
    temperatures: list[float] = []
    for row, sample in enumerate(samples):
        tokens = sample.prompt_ids + sample.token_ids
        ids[row, : len(tokens)] = torch.tensor(tokens)
        # The state at a token predicts the next one.
        columns += range(len(sample.prompt_ids) - 1, len(tokens) - 1)
        rows += [row] * len(sample.token_ids)
        temperatures += [sample.temperature] * len(sample.token_ids)
    targets = torch.tensor([token for sample in samples for token in sample.token_ids])
    hidden = model.base_model(input_ids=ids.to(device), use_cache=False).last_hidden_state
    hidden = hidden[rows, columns]  # [tokens, hidden]
    return _chunked(
        model,
        hidden,
        targets.to(device),
        torch.tensor(temperatures, dtype=torch.float32, device=device),
    )


def _chunked(model: Any, hidden: Tensor, targets: Tensor, temperatures: Tensor) -> Tensor:
    """Logits are made chunk by chunk, and made again in the backward pass."""
    size = max(1, CHUNK_ELEMENTS // model.config.get_text_config().vocab_size)
    parts = (torch.split(column, size) for column in (hidden, targets, temperatures))
    chunks = zip(*parts, strict=True)
    if len(hidden) <= size or not hidden.requires_grad:
        return torch.cat([_logprobs(model, *chunk) for chunk in chunks])
    pieces = [checkpoint(_logprobs, model, *chunk, use_reentrant=False) for chunk in chunks]
    return torch.cat(pieces)


def _logprobs(model: Any, hidden: Tensor, targets: Tensor, temperatures: Tensor) -> Tensor:
    logits = logits_of(model, hidden)  # [chunk, vocabulary]
    logits = logits / temperatures[:, None]
    chosen = logits.gather(1, targets[:, None])[:, 0]
    return chosen - logits.logsumexp(dim=-1)


def logits_of(model: Any, hidden: Tensor) -> Tensor:
    """The logits as the model's own forward pass makes them, in float32 at least."""
    config = model.config.get_text_config()
    logits: Tensor = model.get_output_embeddings()(hidden)
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    if scaling := getattr(config, "logits_scaling", None):  # Granite
        logits = logits / scaling
    if scale := getattr(config, "logit_scale", None):  # Cohere
        logits = logits * scale
    if cap := getattr(config, "final_logit_softcapping", None):  # Gemma
        logits = torch.tanh(logits / cap) * cap
    return logits
