"""Log-probabilities of response tokens; [batch, time, vocabulary] is never held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from collab.models.local.sampling import nucleus
from collab.trainers.learner.prefix_tree.attention import TreeAttention, tree_attention
from collab.trainers.learner.prefix_tree.packing import PackedSequence, PrefixTree, inputs_of

CHUNK_TOKENS = 96
"""Whose logits are held at once. With more of them a product gains nothing, and a processor reads
logits from memory that it would find in its cache."""

WIDTHS = 16
"""Widths of rows between two powers of two: oneDNN compiles products anew for each, and keeps them
by the hundred. Padding adds a sixteenth at most, or fewer tokens than these."""


class Scored(NamedTuple):
    """Of the response tokens of some rows, one after the other; each [tokens]."""

    logprobs: Tensor
    outside_support: Tensor
    """Whether top_p or top_k leave out the token that was drawn: by rounding, at their edge."""


def response_logprobs(model: Any, rows: Sequence[PackedSequence], device: torch.device) -> Scored:
    """Log-probabilities of the response tokens of the rows' samples, in their order.

    Under each sample's own temperature, top_k and top_p, as they were drawn. `model` is a causal
    language model of transformers.
    """
    samples = [sample for row in rows for sample in row]
    targets = [token for sample in samples for token in sample.token_ids]
    vocabulary = model.config.get_text_config().vocab_size
    settings = [
        (s.temperature, s.top_p, s.top_k or vocabulary) for s in samples for _ in s.token_ids
    ]
    return _chunked(
        model,
        states(model, rows, device),
        torch.tensor(targets, device=device),
        torch.tensor(settings, dtype=torch.float32, device=device),
    )


def states(model: Any, rows: Sequence[PackedSequence], device: torch.device) -> Tensor:
    """The last states that predict the response tokens, in their order: [tokens, hidden]."""
    trees = [PrefixTree() for _ in rows]
    paths = [[tree.add(inputs_of(s)) for s in row] for tree, row in zip(trees, rows, strict=True)]
    width = _padded(max(len(tree.tokens) for tree in trees))
    places = [
        number * width + place
        for number, row in enumerate(rows)
        for sample, path in zip(row, paths[number], strict=True)
        for place in path[len(sample.prompt_ids) - 1 :]
    ]
    hidden = _forward(model, trees, width, device).flatten(0, 1)
    # Unlike indexing, index_select adds gradients up in the same order every time.
    return hidden.index_select(0, torch.tensor(places, device=device))


def _padded(width: int) -> int:
    """The least of the widths that holds so many tokens."""
    step = max(WIDTHS, (1 << width.bit_length()) // (2 * WIDTHS))
    return step * ceil(width / step)


def _forward(model: Any, trees: Sequence[PrefixTree], width: int, device: torch.device) -> Tensor:
    """Of rows that are padded on the right: [batch, time, hidden]."""
    ids = torch.zeros(len(trees), width, dtype=torch.long)
    for tree, row in zip(trees, ids, strict=True):
        row[: len(tree.tokens)] = torch.tensor(tree.tokens)
    ids = ids.to(device)
    if all(tree.is_chain for tree in trees):
        output = model.base_model(input_ids=ids, use_cache=False)
    else:
        depths = torch.zeros_like(ids)
        for tree, row in zip(trees, depths, strict=True):
            row[: len(tree.depths)] = torch.tensor(tree.depths)
        with tree_attention(model):
            output = model.base_model(
                input_ids=ids,
                position_ids=depths,
                branches=TreeAttention(trees, width, device),
                use_cache=False,
            )
    hidden: Tensor = output.last_hidden_state
    return hidden


def _chunked(model: Any, hidden: Tensor, targets: Tensor, settings: Tensor) -> Scored:
    """Logits are made chunk by chunk and held for one at a time."""
    columns = (torch.split(column, CHUNK_TOKENS) for column in (hidden, targets, settings))
    score = _way_to_score(model, hidden)
    pieces = [score(model, *chunk) for chunk in zip(*columns, strict=True)]
    logprobs, outside_support = zip(*pieces, strict=True)
    return Scored(torch.cat(logprobs), torch.cat(outside_support))


def _way_to_score(model: Any, hidden: Tensor) -> Callable[..., tuple[Tensor, Tensor]]:
    if not hidden.requires_grad:
        return _score
    learns = any(p.requires_grad for p in model.get_output_embeddings().parameters())
    return _score_twice if learns else _score_once


def _score_twice(model: Any, *chunk: Tensor) -> tuple[Tensor, Tensor]:
    """Logits are made again in the backward pass, where the head's own gradients need them."""
    scored: tuple[Tensor, Tensor] = checkpoint(_score, model, *chunk, use_reentrant=False)
    return scored


def _score_once(model: Any, hidden: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients are made with the log-probabilities: each depends on its own token's state alone.

    So logits are made once, and what is kept for the backward pass is as wide as a state.
    """
    with torch.enable_grad():
        own = hidden.detach().requires_grad_()
        logprobs, outside_support = _score(model, own, *rest)
        (slopes,) = torch.autograd.grad(logprobs.sum(), own)
    linear: Tensor = _Linear.apply(hidden, slopes, logprobs.detach())  # type: ignore[no-untyped-call]
    return linear, outside_support


class _Linear(torch.autograd.Function):
    """`values` [tokens] as a function of [tokens, n] with these `slopes`, [tokens, n]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slopes: Tensor, values: Tensor) -> Tensor:  # noqa: ARG004
        ctx.save_for_backward(slopes)
        return values

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return (upstream[:, None] * slopes).to(slopes.dtype), None, None


def _score(model: Any, hidden: Tensor, targets: Tensor, settings: Tensor) -> tuple[Tensor, Tensor]:
    """`settings` are temperature, top_p and top_k: [chunk, 3]."""
    temperatures, top_p, top_k = settings.unbind(dim=1)
    logits = logits_of(model, hidden)  # [chunk, vocabulary]
    if bool((temperatures != 1).any()):
        logits = logits / temperatures[:, None]
    outside_support = torch.zeros_like(targets, dtype=torch.bool)
    rows = ((top_p < 1) | (top_k < logits.shape[1])).nonzero()[:, 0]
    if len(rows):
        left_out = torch.zeros_like(logits, dtype=torch.bool)
        left_out[rows] = _left_out(logits.detach()[rows], top_p[rows], top_k[rows])
        outside_support = left_out.gather(1, targets[:, None])[:, 0]
        left_out.scatter_(1, targets[:, None], value=False)
        logits = logits.masked_fill(left_out, -torch.inf)
    return -functional.cross_entropy(logits, targets, reduction="none"), outside_support


def _left_out(logits: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """The tokens that are not drawn from: [chunk, vocabulary]."""
    candidates, index = nucleus(logits.softmax(dim=-1), top_p, top_k)
    return torch.ones_like(logits, dtype=torch.bool).scatter_(1, index, candidates == 0)


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
