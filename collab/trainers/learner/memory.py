"""What learning takes of a device's memory, worked out from a model's dimensions."""

from __future__ import annotations

from collab.models.local.dimensions import Dimensions

LOGIT_BYTES = 3 * 4 + 1
"""What an entry of [chunk, vocabulary] takes where most is held: in float32 the logarithm of the
softmax, its gradient and that of the logits, and whether `top_p` or `top_k` leave the entry out."""

GRADIENTS = 0.6
"""Of what a layer keeps: the gradients that the backward pass holds at once of it; measured."""

SHORT = 512
"""Keys up to which a CPU is twice as fast by the formula, gradients included, as by torch's kernel,
in types that are narrower than float32; more of them would take much memory."""


def learning_bytes(
    dimensions: Dimensions, tokens: int, chunk: int, *, checkpointing: bool, keys: int = 0
) -> int:
    """Bytes that a micro-batch of `tokens` takes where it takes the most.

    That is at the end of the forward pass, with the logits of `chunk` tokens, or in the backward
    pass through a layer. `keys` are those that a token attends to by the formula, whose weights
    are kept.
    """
    kept = kept_bytes(dimensions, tokens, checkpointing=checkpointing, keys=keys)
    layer = backward_bytes(dimensions, tokens, checkpointing=checkpointing, keys=keys)
    return kept + max(layer, logit_bytes(dimensions, min(tokens, chunk)))


def kept_bytes(dimensions: Dimensions, tokens: int, *, checkpointing: bool, keys: int = 0) -> int:
    """Bytes that the layers keep of `tokens`; with `checkpointing` no more than what they read."""
    read = tokens * dimensions.hidden * dimensions.bytes
    layer = read if checkpointing else _layer_bytes(dimensions, tokens, keys)
    last = tokens * dimensions.hidden * 4  # of the norm behind the layers
    return layer * dimensions.layers + last


def backward_bytes(
    dimensions: Dimensions, tokens: int, *, checkpointing: bool, keys: int = 0
) -> int:
    """Bytes of the backward pass through a layer; with `checkpointing` it keeps its own anew."""
    layer = _layer_bytes(dimensions, tokens, keys)
    return int(GRADIENTS * layer) + (layer if checkpointing else 0)


def _layer_bytes(dimensions: Dimensions, tokens: int, keys: int) -> int:
    """What one layer keeps of `tokens`."""
    # In the model's type: inputs of the projections, and what attention keeps. In float32: norms.
    hidden = dimensions.hidden * (7 * dimensions.bytes + 2 * 4)
    weights = dimensions.attention * keys
    return tokens * (hidden + (4 * dimensions.intermediate + weights) * dimensions.bytes)


def logit_bytes(dimensions: Dimensions, tokens: int) -> int:
    """Bytes of the logits of `tokens` and of what is made of them."""
    return LOGIT_BYTES * tokens * dimensions.vocabulary
