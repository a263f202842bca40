"""The shape of a group: how its episodes branch."""

from __future__ import annotations

from dataclasses import dataclass

from collab.recipe.trainer import TurnStructure

BEST_SIBLING = -1
"""Placeholder for a sample in `greedy`: the sibling that later turns continue from."""


@dataclass(frozen=True)
class Shape:
    """The shape of a group: G chains, one tree, or its best path."""

    structure: TurnStructure
    group_size: int
    n_turns: int

    @property
    def siblings_share_state(self) -> bool:
        """True if compared joint actions have the same history."""
        return self.structure != "chains"

    @property
    def episodes(self) -> int:
        """Largest number of episodes in a group."""
        if self.structure == "greedy":
            return self.n_turns * (self.group_size - 1) + 1
        return self.group_size * self.leaves(0)

    def child(self, sample: int, turn: int, sibling: int) -> int:
        """Return the number of the sample that continues `sample` with a sibling in `turn`.

        In a tree with 2 siblings and 2 turns, turn 0 has the samples 0 and 2, and turn 1 continues
        sample 2 as the samples 2 and 3.
        """
        if self.structure == "greedy":
            return turn * self.group_size + sibling
        return sample + sibling * self.leaves(turn)

    def key(self, sample: int, turn: int) -> tuple[int, int]:
        """Return a key that is the same for episodes with the same joint action at `turn`.

        In that tree, the samples 2 and 3 have the same joint action at turn 0, with the key (0, 1).
        """
        if self.structure == "tree":
            return turn, sample // self.leaves(turn)
        shared = self.structure == "greedy" and turn < sample // self.group_size
        return turn, BEST_SIBLING if shared else sample

    def leaves(self, turn: int) -> int:
        """Return the largest number of episodes of a tree that share one joint action at `turn`."""
        if self.structure != "tree":
            return 1
        return int(self.group_size ** (self.n_turns - 1 - turn))
