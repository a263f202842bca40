"""What a step is on a GPU, and whether it fits. Computed, and not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from collab.recipe import TrainerSpec
from collab.trainers.training.plan.cards import Card
from collab.trainers.training.plan.lengths import Lengths, Rows, learned_tokens
from collab.trainers.training.plan.memory import Counted
from collab.wording import counted


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
    sleeps: bool
    """Whether vLLM gives its memory back while the trainer learns."""

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
        if self.sleeps:
            lines.append("  vLLM sleeps while the trainer learns")
        return lines


def on_card(
    card: Card,
    ranks: int,
    found: Counted,
    spec: TrainerSpec,
    lengths: Mapping[str, Sequence[Lengths]],
) -> OnCard:
    """A step on `ranks` of `card`, from what was counted for one of them."""
    batches = 0
    for agent, sizes in found.sizes.items():
        chosen = found.chosen[agent]
        rows = Rows(chosen.micro_batch_tokens, sizes.shares, spec.group_size)
        tokens = learned_tokens(rows, lengths[agent])
        batches += ceil(tokens / chosen.micro_batch_tokens)
    least = min(found.chosen.values(), key=lambda chosen: chosen.micro_batch_tokens)
    return OnCard(
        card=card.name if ranks == 1 else f"{ranks} x {card.name}",
        memory=card.memory,
        taken=sum(found.memory.values()),
        ranks=ranks,
        micro_batch_tokens=least.micro_batch_tokens,
        head_chunk_tokens=least.head_chunk_tokens,
        gradient_checkpointing=least.gradient_checkpointing,
        micro_batches=batches,
        sleeps=found.sleeps,
    )
