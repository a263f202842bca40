"""What a step is on a GPU: what fits, and about how long it takes. Computed, and not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from collab.recipe import TrainerSpec
from collab.trainers.training.plan.cards import Card
from collab.trainers.training.plan.lengths import Lengths, Rows, learned_tokens
from collab.trainers.training.plan.memory import Counted
from collab.wording import counted

LEARNING_SHARE = 0.2
"""Of the peak in bfloat16 that learning is assumed to reach; published numbers are 0.1 to 0.22."""

READING_SHARE = 0.3
"""Of the memory's speed that sampling is assumed to reach, which reads all weights for a token."""


@dataclass(frozen=True)
class OnCard:
    """A step on one GPU, or on several of a kind."""

    card: str
    memory: int
    """Bytes that it has."""
    taken: int
    """Bytes that the run takes of it."""
    ranks: int
    micro_batch_tokens: int
    head_chunk_tokens: int
    gradient_checkpointing: bool
    micro_batches: int
    """Of a step, about."""
    learning_flops: float
    """Of a step."""
    learning_seconds: float | None
    sampling_seconds: float | None

    @property
    def fits(self) -> bool:
        """Whether the GPU has what the run takes."""
        return self.taken <= self.memory

    def lines(self) -> list[str]:
        """As lines for people."""
        of = f"{self.taken / 1e9:.1f} of {self.memory / 1e9:.1f} GB"
        twice = "computed twice" if self.gradient_checkpointing else "kept"
        share = ceil(self.micro_batches / self.ranks)
        lines = [
            f"on {self.card}: {'fits' if self.fits else 'does not fit'}, {of} a GPU",
            f"  learning: micro-batches of {self.micro_batch_tokens:,} tokens, activations {twice},"
            f" logits of {self.head_chunk_tokens:,} tokens at once",
            f"  {counted(self.ranks, 'rank')}; micro-batches a step: about {self.micro_batches:,},"
            f" {share:,} a rank",
        ]
        if self.micro_batches < self.ranks:
            idle = self.ranks - self.micro_batches
            lines.append(
                f"  warning: {counted(idle, 'rank')} would have nothing to learn from; raise"
                " trainer.tasks_per_step, or take fewer GPUs"
            )
        if self.learning_seconds is None or self.sampling_seconds is None:
            lines.append(
                f"  a step learns with {self.learning_flops / 1e12:,.0f} TFLOP; name a card of"
                " docs/gpu.md for an estimate of its time"
            )
        else:
            lines.append(
                f"  a step, estimated and not measured: learning {_told(self.learning_seconds)} at"
                f" an assumed {LEARNING_SHARE:.0%} of the card's peak, sampling"
                f" {_told(self.sampling_seconds)} at {READING_SHARE:.0%} of its memory's speed"
            )
        return lines


def _told(seconds: float) -> str:
    """A time, no finer than the estimate, which knows nothing of what starting a kernel takes."""
    return f"{seconds:.1f} s" if seconds >= 0.1 else "under 0.1 s"


def on_card(
    card: Card,
    ranks: int,
    found: Counted,
    spec: TrainerSpec,
    lengths: Mapping[str, Sequence[Lengths]],
) -> OnCard:
    """A step on `ranks` of `card`, from what was counted for one of them."""
    flops, batches = 0.0, 0
    for agent, sizes in found.sizes.items():
        chosen = found.chosen[agent]
        rows = Rows(chosen.micro_batch_tokens, sizes.shares, spec.group_size)
        tokens = learned_tokens(rows, lengths[agent])
        passes = 4 if spec.policies != "full" else 6
        passes += 2 * chosen.gradient_checkpointing
        flops += passes * sizes.parameters * tokens * spec.inner_epochs
        batches += ceil(tokens / chosen.micro_batch_tokens)
    least = min(found.chosen.values(), key=lambda chosen: chosen.micro_batch_tokens)
    steps = max(sum(item.new for item in items) for items in lengths.values())
    read = steps * max(s.weight_bytes for s in found.sizes.values())
    learning = flops / ranks / (LEARNING_SHARE * card.flops) if card.flops else None
    sampling = read / (READING_SHARE * card.bandwidth) if card.bandwidth else None
    return OnCard(
        card=card.name if ranks == 1 else f"{ranks} x {card.name}",
        memory=card.memory,
        taken=sum(found.memory.values()),
        ranks=ranks,
        micro_batch_tokens=least.micro_batch_tokens,
        head_chunk_tokens=least.head_chunk_tokens,
        gradient_checkpointing=least.gradient_checkpointing,
        micro_batches=batches,
        learning_flops=flops,
        learning_seconds=learning,
        sampling_seconds=sampling,
    )
