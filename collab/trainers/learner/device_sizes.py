"""Chooses the sizes that a recipe leaves open, for the device that learns.

A CPU keeps small batches in its cache, and larger ones are no faster. A GPU needs thousands of
tokens to be busy, so it gets as many as fit in its free memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from collab.errors import RecipeError
from collab.models.local.dimensions import Dimensions
from collab.recipe import TrainerSpec

LOGIT_BYTES = 3 * 4 + 1
"""Peak bytes per entry of [chunk, vocabulary]: the float32 log-softmax, its gradient, the gradient
of the logits, and the mask of `top_p` and `top_k`."""

GRADIENT_SHARE = 0.6
"""Gradients held at once in the backward pass, as a measured share of a layer's activations."""


def learning_bytes(dimensions: Dimensions, tokens: int, chunk: int, *, checkpointing: bool) -> int:
    """Return the peak memory, in bytes, of learning from a micro-batch of `tokens`.

    The peak is at the end of the forward pass, with the logits of `chunk` tokens, or in the
    backward pass through a layer.
    """
    kept = kept_bytes(dimensions, tokens, checkpointing=checkpointing)
    layer = backward_bytes(dimensions, tokens, checkpointing=checkpointing)
    return kept + max(layer, logit_bytes(dimensions, min(tokens, chunk)))


def kept_bytes(dimensions: Dimensions, tokens: int, *, checkpointing: bool) -> int:
    """Return the bytes that the forward pass over `tokens` keeps for the backward pass.

    With `checkpointing`, each layer keeps only its inputs.
    """
    inputs = tokens * dimensions.hidden * dimensions.bytes
    layer = inputs if checkpointing else _layer_bytes(dimensions, tokens)
    last = tokens * dimensions.hidden * 4  # for the norm after the layers
    return layer * dimensions.layers + last


def backward_bytes(dimensions: Dimensions, tokens: int, *, checkpointing: bool) -> int:
    """Return the bytes of one layer's backward pass, with recomputation if `checkpointing`."""
    layer = _layer_bytes(dimensions, tokens)
    return int(GRADIENT_SHARE * layer) + (layer if checkpointing else 0)


def _layer_bytes(dimensions: Dimensions, tokens: int) -> int:
    # In the model's dtype: inputs of the projections, and attention's tensors. In float32: norms.
    hidden = dimensions.hidden * (7 * dimensions.bytes + 2 * 4)
    return tokens * (hidden + 4 * dimensions.intermediate * dimensions.bytes)


def logit_bytes(dimensions: Dimensions, tokens: int) -> int:
    """Return the bytes of the logits of `tokens` and of everything computed from them."""
    return LOGIT_BYTES * tokens * dimensions.vocabulary


CHUNK_TOKENS, GPU_CHUNK_TOKENS = 96, 1024
"""Number of tokens whose logits are held at once, on a CPU and on a GPU. More are not faster."""

CPU_PASS_TOKENS = 2048

GPU_MIN_TOKENS, GPU_MAX_TOKENS, GPU_TOKEN_STEP = 1024, 32_768, 1024
"""Bounds and step of the tokens of a micro-batch on a GPU, where larger ones are not faster."""

GPU_BUSY_TOKENS = 4096
"""Number of tokens that keep a GPU busy. If fewer fit, activations are computed twice."""

USABLE_MEMORY = 0.85
"""Usable share of the free memory. The rest is for kernels, and for gaps between tensors."""

GPU_FORWARD_TOKENS = 8192
"""Number of tokens in a pass without gradients on a GPU, which keeps no activations."""


@dataclass(frozen=True)
class DeviceSizes:
    """The sizes that a learner computes with."""

    micro_batch_tokens: int
    head_chunk_tokens: int
    gradient_checkpointing: bool


def device_sizes(spec: TrainerSpec, kind: str, dimensions: Dimensions, free: int) -> DeviceSizes:
    """Return the sizes that the recipe sets. Sizes that it leaves open are chosen for the type of
    the device, `cpu` or `cuda`.

    `free` is a GPU's free memory in bytes. CPUs ignore it.
    """
    chunk = chunk_tokens(kind)
    checkpoints = spec.gradient_checkpointing is True
    if kind == "cpu":
        return DeviceSizes(spec.micro_batch_tokens or CPU_PASS_TOKENS, chunk, checkpoints)
    usable = USABLE_MEMORY * free

    def max_tokens(*, checkpointing: bool) -> int:
        kept = kept_bytes(dimensions, GPU_TOKEN_STEP, checkpointing=checkpointing)
        layer = backward_bytes(dimensions, GPU_TOKEN_STEP, checkpointing=checkpointing)
        left = usable - logit_bytes(dimensions, chunk)
        return GPU_TOKEN_STEP * int(min(left / kept, usable / (kept + layer)))

    if spec.gradient_checkpointing == "auto":
        least = spec.micro_batch_tokens or GPU_BUSY_TOKENS
        checkpoints = max_tokens(checkpointing=False) < least
    chosen = min(max(max_tokens(checkpointing=checkpoints), GPU_MIN_TOKENS), GPU_MAX_TOKENS)
    return DeviceSizes(spec.micro_batch_tokens or chosen, chunk, checkpoints)


def chunk_tokens(kind: str) -> int:
    """Return the number of tokens whose logits are held at once."""
    return CHUNK_TOKENS if kind == "cpu" else GPU_CHUNK_TOKENS


def check_device(spec: TrainerSpec, kind: str) -> None:
    """Check that a device of the type `kind`, e.g. `cuda`, supports the options."""
    if spec.tree_attention == "varlen" and kind != "cuda":
        raise RecipeError(
            f"trainer.tree_attention 'varlen' needs a GPU, but the model is on {kind}; leave the"
            " option out, or set model.device to cuda"
        )


def forward_tokens(spec: TrainerSpec, kind: str) -> int:
    """Return the maximum number of tokens, padding included, of a pass without gradients."""
    default = CPU_PASS_TOKENS if kind == "cpu" else GPU_FORWARD_TOKENS
    return spec.micro_batch_tokens or default
