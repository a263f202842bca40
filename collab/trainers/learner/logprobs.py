"""Log-probabilities of response tokens, computed in chunks to save memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import ceil
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from collab.models.local.dimensions import has_full_attention
from collab.models.local.layers import has_gradient_checkpointing
from collab.models.local.sampling import nucleus
from collab.records import Sampling
from collab.trainers.learner.device_sizes import chunk_tokens
from collab.trainers.learner.prefix_tree.attention import Branches, TreeAttention, tree_attention
from collab.trainers.learner.prefix_tree.packing import PackedSequence, PrefixTree
from collab.trainers.learner.prefix_tree.varlen import VarlenAttention, branch_plan, varlen_kernel
from collab.trainers.learner.to_device import tensor_on, to_device

WIDTHS_PER_DOUBLING = 16
"""Row widths between two powers of two. oneDNN compiles a product per width, and keeps them by the
hundred. Padding adds a sixteenth at most, or fewer tokens than this."""


NUCLEUS_CHUNK_TOKENS = 128
"""Tokens narrowed by top_p and top_k at once. This takes several times their logits' memory."""


class SamplingSettings(NamedTuple):
    """The settings with which a token was drawn."""

    temperature: float
    top_p: float
    top_k: int
    """Top_k, or the vocabulary's size if all of it is kept."""


def token_settings(sampling: Sampling, vocabulary: int) -> SamplingSettings:
    """Return the settings that shape a token's distribution."""
    return SamplingSettings(sampling.temperature, sampling.top_p, sampling.top_k or vocabulary)


class TokenScores(NamedTuple):
    """Results for the response tokens of some rows, concatenated, each of shape [tokens]."""

    logprobs: Tensor
    outside_support: Tensor
    """True if top_p or top_k excludes the drawn token, because of rounding at their boundary."""


def response_logprobs(
    model: Any,
    rows: Sequence[PackedSequence],
    device: torch.device,
    chunk: int | None = None,
    attention: str = "auto",
) -> TokenScores:
    """Return the log-probabilities of the response tokens of the rows' samples, in order.

    Each log-probability is computed with the temperature, top_k and top_p with which the sample was
    drawn. `model` is a causal language model of transformers. `chunk` is the number of tokens whose
    logits are held at once, and `attention` the recipe's `tree_attention`. On a GPU, the call does
    not wait for the results.
    """
    samples = [sample for row in rows for sample in row.samples]
    targets = [token for sample in samples for token in sample.token_ids]
    vocabulary = model.config.get_text_config().vocab_size
    drawn = [token_settings(sample.sampling, vocabulary) for sample in samples]
    return _score_chunks(
        model,
        response_states(model, rows, device, attention),
        tensor_on(targets, device),
        [way for way, s in zip(drawn, samples, strict=True) for _ in s.token_ids],
        chunk or chunk_tokens(device.type),
    )


def response_states(
    model: Any, rows: Sequence[PackedSequence], device: torch.device, attention: str = "auto"
) -> Tensor:
    """Return the last states from which the response tokens are predicted: [tokens, hidden]."""
    trees = [row.tree for row in rows]
    width = _padded_width(max(row.width for row in rows))
    places = [
        number * width + place
        for number, row in enumerate(rows)
        for sample, path in zip(row.samples, row.tree.paths, strict=True)
        for place in path[len(sample.prompt_ids) - 1 :]
    ]
    hidden = _forward(model, trees, width, device, attention).flatten(0, 1)
    # Unlike indexing, index_select adds gradients up in the same order every time.
    return hidden.index_select(0, tensor_on(places, device))


def _padded_width(width: int) -> int:
    """Return the smallest of the widths that holds this many tokens."""
    step = max(WIDTHS_PER_DOUBLING, (1 << width.bit_length()) // (2 * WIDTHS_PER_DOUBLING))
    return step * ceil(width / step)


def _forward(
    model: Any, trees: Sequence[PrefixTree], width: int, device: torch.device, attention: str
) -> Tensor:
    """Return the states of rows that are padded on the right: [batch, time, hidden]."""
    ids = torch.zeros(len(trees), width, dtype=torch.long)
    for tree, row in zip(trees, ids, strict=True):
        row[: len(tree.tokens)] = torch.tensor(tree.tokens)
    if all(tree.is_chain for tree in trees):
        with _no_packing_search(model, device):
            output = model.base_model(input_ids=to_device(ids, device), use_cache=False)
    else:
        depths = torch.zeros_like(ids)
        for tree, row in zip(trees, depths, strict=True):
            row[: len(tree.depths)] = torch.tensor(tree.depths)
        with tree_attention(model):
            output = model.base_model(
                input_ids=to_device(ids, device),
                position_ids=to_device(depths, device),
                branches=_branches(model, trees, width, device, attention),
                use_cache=False,
            )
    hidden: Tensor = output.last_hidden_state
    return hidden


def _branches(
    model: Any, trees: Sequence[PrefixTree], width: int, device: torch.device, attention: str
) -> Branches:
    kernel = varlen_kernel(model, device, attention)
    if kernel is None:
        return TreeAttention(trees, width, device)
    plan = branch_plan(trees, width)
    return VarlenAttention(plan, device, kernel, checkpointing=has_gradient_checkpointing(model))


def _no_packing_search(model: Any, device: torch.device) -> AbstractContextManager[None]:
    """Keep transformers from searching for packed rows, which makes the host wait for a GPU.

    transformers does so before plain attention only. Other kinds, e.g. windowed, are left alone.
    """
    plain = device.type != "cpu" and has_full_attention(model.config.get_text_config())
    return tree_attention(model) if plain else nullcontext()


def _score_chunks(
    model: Any, hidden: Tensor, targets: Tensor, drawn: Sequence[SamplingSettings], chunk: int
) -> TokenScores:
    """Compute logits chunk by chunk, and hold one chunk at a time."""
    settings = tensor_on(drawn, hidden.device, torch.float32)  # [tokens, 3]
    columns = (torch.split(column, chunk) for column in (hidden, targets, settings))
    ways = [drawn[start : start + chunk] for start in range(0, len(drawn), chunk)]
    score = _choose_scorer(model, hidden)
    pieces = [score(model, *chunk) for chunk in zip(*columns, ways, strict=True)]
    logprobs, outside_support = zip(*pieces, strict=True)
    return TokenScores(torch.cat(logprobs), torch.cat(outside_support))


def _choose_scorer(model: Any, hidden: Tensor) -> Callable[..., tuple[Tensor, Tensor]]:
    if not hidden.requires_grad:
        return _score
    learns = any(p.requires_grad for p in model.get_output_embeddings().parameters())
    return _score_with_recomputation if learns else _score_with_gradients


def _score_with_recomputation(model: Any, *chunk: Any) -> tuple[Tensor, Tensor]:
    """Compute logits again in the backward pass, because the gradients of the head need them."""
    scored: tuple[Tensor, Tensor] = checkpoint(_score, model, *chunk, use_reentrant=False)
    return scored


def _score_with_gradients(model: Any, hidden: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """Compute gradients with the log-probabilities, since each depends on its own token's state
    alone.

    Logits are then computed once, and the backward pass keeps only one state per token.
    """
    with torch.enable_grad():
        leaf = hidden.detach().requires_grad_()
        logprobs, outside_support = _score(model, leaf, *rest)
        (slopes,) = torch.autograd.grad(logprobs.sum(), leaf)
    linear: Tensor = _Linear.apply(hidden, slopes, logprobs.detach())  # type: ignore[no-untyped-call]
    return linear, outside_support


class _Linear(torch.autograd.Function):
    """Returns `values` [tokens] as a function of x, [tokens, n], with the gradient `slopes`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slopes: Tensor, values: Tensor) -> Tensor:  # noqa: ARG004
        ctx.save_for_backward(slopes)
        return values

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return (upstream[:, None] * slopes).to(slopes.dtype), None, None


def _score(
    model: Any, hidden: Tensor, targets: Tensor, settings: Tensor, drawn: Sequence[SamplingSettings]
) -> tuple[Tensor, Tensor]:
    """Score a chunk. `settings`, [chunk, 3], are the values of `drawn`, on the device."""
    temperatures, top_p, top_k = settings.unbind(dim=1)
    logits = logits_of(model, hidden)  # [chunk, vocabulary]
    if any(way.temperature != 1 for way in drawn):
        logits = logits / temperatures[:, None]
    outside_support = torch.zeros_like(targets, dtype=torch.bool)
    vocabulary = logits.shape[1]
    truncated = [n for n, way in enumerate(drawn) if way.top_p < 1 or way.top_k < vocabulary]
    if truncated:
        excluded = _excluded_tokens(logits.detach(), top_p, top_k, drawn, truncated)
        outside_support = excluded.gather(1, targets[:, None])[:, 0]
        excluded.scatter_(1, targets[:, None], value=False)
        logits = logits.masked_fill(excluded, -torch.inf)
    return -functional.cross_entropy(logits, targets, reduction="none"), outside_support


def _excluded_tokens(
    logits: Tensor,
    top_p: Tensor,
    top_k: Tensor,
    drawn: Sequence[SamplingSettings],
    truncated: Sequence[int],
) -> Tensor:
    """Return a mask, [chunk, vocabulary], of the tokens that top_p or top_k excluded in the rows
    `truncated`.

    On a CPU, reading values may show that few candidates suffice. A GPU sorts the whole vocabulary
    for a `top_p` without `top_k`, because reading values would make the host wait.
    """
    excluded = torch.zeros_like(logits, dtype=torch.bool)
    reads_are_free = _reads_are_free(logits.device)
    for start in range(0, len(truncated), NUCLEUS_CHUNK_TOKENS):
        chunk = truncated[start : start + NUCLEUS_CHUNK_TOKENS]
        rows = tensor_on(chunk, logits.device)
        probabilities = logits[rows].softmax(dim=-1)
        width = None if reads_are_free else max(drawn[n].top_k for n in chunk)
        candidates, index = nucleus(probabilities, top_p[rows], top_k[rows], width)
        left = torch.ones_like(probabilities, dtype=torch.bool).scatter_(1, index, candidates == 0)
        excluded[rows] = left
    return excluded


def _reads_are_free(device: torch.device) -> bool:
    """Return True if values may be read on the host, which makes it wait for a GPU."""
    return device.type == "cpu"


def logits_of(model: Any, hidden: Tensor) -> Tensor:
    """Map last hidden states [n, hidden] to logits [n, vocabulary], at least in float32."""
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
