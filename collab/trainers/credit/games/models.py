"""The models of a team that plays a game: each sequence of tokens has a feature of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from collab.errors import TrainingError
from collab.records import Action

if TYPE_CHECKING:
    from torch import Tensor


class OneHot:
    """A `FrozenModel` whose features tell sequences apart and nothing more."""

    def __init__(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size
        self._numbers: dict[tuple[int, ...], int] = {}

    def encode(self, text: str) -> tuple[int, ...]:
        """One token for each character."""
        return tuple(map(ord, text))

    async def features(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """A 1 in the sequence's own column: [n, hidden].

        Raises:
            TrainingError: there are more sequences than columns.
        """
        import torch

        found = torch.zeros(len(sequences), self.hidden_size)
        for row, sequence in zip(found, sequences, strict=True):
            number = self._numbers.setdefault(tuple(sequence), len(self._numbers))
            if number >= self.hidden_size:
                raise TrainingError(
                    f"the game has more histories than the {self.hidden_size} columns of its"
                    " features; give GameModels a larger hidden_size"
                )
            row[number] = 1
        return found


class GameModels:
    """The `TeamModels` of a game. Policies do not move, so each is its own reference."""

    def __init__(self, hidden_size: int = 64) -> None:
        self._size = hidden_size
        self._by_name: dict[str, OneHot] = {}

    def base(self, agent: str) -> OneHot:
        """As `TeamModels.base`."""
        return self.other(agent)

    def other(self, name: str) -> OneHot:
        """As `TeamModels.other`."""
        return self._by_name.setdefault(name, OneHot(self._size))

    async def logprobs(
        self,
        agent: str,  # noqa: ARG002
        actions: Sequence[Action],
        *,
        reference: bool = False,  # noqa: ARG002
    ) -> list[tuple[float, ...]]:
        """As `TeamModels.logprobs`: those that the actions were drawn with."""
        return [action.logprobs for action in actions]
