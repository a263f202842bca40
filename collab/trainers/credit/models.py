"""What a rule of credit may ask of the team's models: hidden states to put a head on, log-probs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from collab.records import Action

if TYPE_CHECKING:
    from torch import Tensor


class FrozenModel(Protocol):
    """A model that nothing trains: a base with its adapters off, or one beside the team's."""

    @property
    def hidden_size(self) -> int:
        """The length of a hidden state."""

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of a text, none of them a control token."""

    async def features(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """The last layer's state at each sequence's last token: float32, [n, hidden].

        No gradient goes through it. Sequences are as many as one likes: they are read in batches.
        """


class TeamModels(Protocol):
    """The models of a team in training."""

    def base(self, agent: str) -> FrozenModel:
        """The base model of a trained agent, without adapters.

        Raises:
            RecipeError: the agent's whole model is trained, so that it has no frozen base.
        """

    def other(self, name: str) -> FrozenModel:
        """A local model beside the team's, by its name; loaded once, and closed with the run."""

    async def logprobs(
        self, agent: str, actions: Sequence[Action], *, reference: bool = False
    ) -> list[tuple[float, ...]]:
        """The log-probability of each token of some responses of an agent, in nats.

        Under the agent's policy as it is now, or under its `reference`, from before training; at
        the agent's sampling settings.
        """


@runtime_checkable
class UsesModels(Protocol):
    """An algorithm that reads the team's models."""

    async def open(self, models: TeamModels) -> None:
        """Called once, before the first step and before `restore`."""
