"""What learning and sampling take where they take the most."""

from __future__ import annotations

from collections.abc import Sequence

from collab.models.local.batching import pack
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import TransformersModel
from collab.trainers.training.plan.lengths import Lengths, longest, micro_batch_tokens
from collab.trainers.training.plan.sizes import Sizes

LOGIT_COPIES = 4
"""Arrays of [chunk, vocabulary] in float32 that log-probabilities and their gradient take at once:
logits, their softmax, its gradient, and the logits that `top_p` or `top_k` have left."""

DRAW_BYTES = 24
"""A token of the vocabulary takes so many bytes while the next one of a row is drawn."""


def activations(sizes: Sizes, spec: TrainerSpec, lengths: Sequence[Lengths]) -> int:
    """Bytes of one micro-batch: what each layer keeps for the backward pass."""
    from collab.trainers.learner.prefix_tree.attention import SHORT

    tokens = micro_batch_tokens(sizes.shares, spec, lengths)
    # In the model's type: inputs of the projections, and what attention keeps. In float32: norms.
    hidden = sizes.hidden * (7 * sizes.bytes + 2 * 4)
    weights = sizes.attention * min(longest(lengths), SHORT)
    layer = tokens * (hidden + (4 * sizes.intermediate + weights) * sizes.bytes)
    kept = tokens * sizes.hidden * sizes.bytes if spec.gradient_checkpointing else layer
    return kept * sizes.layers + layer


def logits(sizes: Sizes, spec: TrainerSpec, lengths: Sequence[Lengths]) -> int:
    """Bytes of the logits of one chunk of a micro-batch."""
    from collab.trainers.learner.logprobs import CHUNK_TOKENS

    tokens = min(micro_batch_tokens(sizes.shares, spec, lengths), CHUNK_TOKENS)
    return LOGIT_COPIES * 4 * tokens * sizes.vocabulary


def sampling(
    recipe: Recipe, agent: str, sizes: Sizes, responses: int, lengths: Sequence[Lengths]
) -> int:
    """Bytes of one padded batch: the key-value cache, and drawing from the vocabulary.

    `responses` are those of a step. Engines in processes of their own keep to their share of the
    memory, and are not counted.
    """
    model = recipe.model_of(agent)
    if not isinstance(model, TransformersModel):
        return 0
    rows = min(responses, recipe.concurrency * len(recipe.team.agents))

    def batch(item: Lengths) -> int:
        number = len(pack([(item.prompt, item.new)] * rows, model.batch_tokens)[0])
        cache = number * (item.prompt + item.new) * sizes.layers * sizes.key_values * sizes.bytes
        return int(1.5 * cache) + number * sizes.vocabulary * DRAW_BYTES

    return max((batch(item) for item in lengths), default=0)
