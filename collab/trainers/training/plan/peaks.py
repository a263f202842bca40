"""What learning and sampling take where they take the most."""

from __future__ import annotations

from collections.abc import Sequence

from collab.models.local.batch_tokens import CPU_TOKENS, batch_bytes, fitting_tokens
from collab.models.local.batching import pack
from collab.recipe import Recipe
from collab.recipe.model import TransformersModel
from collab.runtime.lanes import LANES
from collab.trainers.learner.device_sizes import DeviceSizes
from collab.trainers.learner.memory import SHORT, learning_bytes
from collab.trainers.training.plan.lengths import Lengths, Rows, longest, micro_batch_tokens
from collab.trainers.training.plan.sizes import Sizes


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
    recipe: Recipe,
    agent: str,
    sizes: Sizes,
    lengths: Sequence[Lengths],
    *,
    responses: int,
    free: int,
) -> int:
    """Bytes of one padded batch: the key-value cache, and drawing from the vocabulary.

    `responses` are those of a step, and `free` bytes are left on a GPU. Engines in processes of
    their own are not counted.
    """
    model = recipe.model_of(agent)
    if not isinstance(model, TransformersModel):
        return 0
    shape, on_cpu = sizes.dimensions, sizes.device.type == "cpu"
    lanes = recipe.concurrency or (LANES if on_cpu else responses)
    rows = min(responses, lanes * len(recipe.team.agents))

    def batch(item: Lengths) -> int:
        width = item.prompt + item.new
        budget = CPU_TOKENS if on_cpu else fitting_tokens(shape, free, width)
        budget = model.batch_tokens or budget
        number = len(pack([(item.prompt, item.new)] * rows, budget)[0])
        return batch_bytes(shape, number, width)

    return max((batch(item) for item in lengths), default=0)
