"""What learning and sampling take where they take the most."""

from __future__ import annotations

from collections.abc import Sequence

from collab.models.local.batching import pack
from collab.recipe import Recipe
from collab.recipe.model import TransformersModel
from collab.runtime.lanes import LANES
from collab.trainers.learner.device_sizes import DeviceSizes
from collab.trainers.learner.memory import SHORT, learning_bytes
from collab.trainers.training.plan.lengths import Lengths, Rows, longest, micro_batch_tokens
from collab.trainers.training.plan.sizes import Sizes

DRAW_BYTES = 24
"""A token of the vocabulary takes so many bytes while the next one of a row is drawn."""


def learning(sizes: Sizes, chosen: DeviceSizes, rows: Rows, lengths: Sequence[Lengths]) -> int:
    """Bytes of one micro-batch: what layers keep for the backward pass, and logits of a chunk."""
    return learning_bytes(
        sizes.dimensions,
        micro_batch_tokens(rows, lengths),
        chosen.head_chunk_tokens,
        checkpointing=chosen.gradient_checkpointing,
        keys=min(longest(lengths), SHORT),
    )


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
    shape = sizes.dimensions
    lanes = recipe.concurrency or (LANES if sizes.device.type == "cpu" else responses)
    rows = min(responses, lanes * len(recipe.team.agents))

    def batch(item: Lengths) -> int:
        number = len(pack([(item.prompt, item.new)] * rows, model.batch_tokens)[0])
        held = number * (item.prompt + item.new) * shape.layers
        cache = held * shape.key_values * shape.bytes
        return int(1.5 * cache) + number * shape.vocabulary * DRAW_BYTES

    return max((batch(item) for item in lengths), default=0)
