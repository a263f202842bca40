"""A team whose policies are tables: every joint action has its reward and its chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collab.errors import RecipeError, TrainingError
from collab.records import Action

if TYPE_CHECKING:
    from torch import Tensor

Table = NDArray[np.float64]
Vector = NDArray[np.float64]

Where = tuple[str, int, int]
"""An agent, a turn, and the state that the turn is in."""


@dataclass(frozen=True, eq=False)
class Game:
    """A team of n agents that act once a turn, each by a softmax over its logits.

    Every turn starts in a state, which all agents observe; the first one is in state 0. An agent
    may also see what agents before it did in the turn.
    """

    agents: tuple[str, ...]
    """In the order in which they act."""
    rewards: tuple[Table, ...]
    """A turn each: the joint reward of every joint action, of shape [K_1, .., K_n]."""
    logits: Mapping[Where, Table]
    """Of shape [K_j of every agent j that is seen.., K_i]."""
    sees: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By agent: earlier agents, in their order, whose actions of the turn it is shown."""
    states: NDArray[np.int64] | None = None
    """The state after every joint action; None for 0 always."""
    solved: NDArray[np.bool_] | None = None
    """Joint actions that solve the task: its episode ends, and the reward counts for the turns
    that are left."""
    own: Mapping[str, Table] = field(default_factory=dict)
    """By agent: what it earns beside the joint reward."""
    empty: Mapping[str, int] = field(default_factory=dict)
    """By agent: the action that stands for no answer at all."""
    discount: float = 1.0

    def __post_init__(self) -> None:
        for agent, seen in self.sees.items():
            before = self.agents[: self.agents.index(agent)]
            if list(seen) != [name for name in before if name in seen]:
                raise RecipeError(
                    f"in this game '{agent}' sees {list(seen)}; it can see agents that act before"
                    f" it, named in their order: {list(before)}"
                )

    @property
    def turns(self) -> int:
        """H."""
        return len(self.rewards)

    @cached_property
    def policies(self) -> dict[Where, Table]:
        """The chance of every action, in the shape of `logits`."""
        return {where: softmax(table) for where, table in self.logits.items()}

    @cached_property
    def offsets(self) -> dict[Where, int]:
        """Where a table of logits begins in the vector of all logits of its agent."""
        ends: dict[str, int] = dict.fromkeys(self.agents, 0)
        starts = {}
        for where, table in self.logits.items():
            starts[where] = ends[where[0]]
            ends[where[0]] += table.size
        return starts

    def zeros(self) -> dict[str, Vector]:
        """A vector of the size of each agent's logits."""
        sizes = dict.fromkeys(self.agents, 0)
        for (agent, _, _), table in self.logits.items():
            sizes[agent] += table.size
        return {agent: np.zeros(size) for agent, size in sizes.items()}

    def earned(self, turn: int, agent: str) -> Table:
        """What an agent earns by every joint action of a turn."""
        own = self.own.get(agent)
        return self.rewards[turn] if own is None else self.rewards[turn] + own

    def axes(self, agent: str) -> tuple[int, ...]:
        """The axes, among those of a joint action, that an agent's table of logits has."""
        return tuple(self.agents.index(name) for name in (*self.sees.get(agent, ()), agent))

    def chances(self, turn: int, state: int) -> Table:
        """The chance of every joint action in a state."""
        shape = self.rewards[turn].shape
        joint = np.ones(shape)
        for agent in self.agents:
            axes = self.axes(agent)
            sizes = [shape[n] if n in axes else 1 for n in range(len(shape))]
            joint = joint * self.policies[agent, turn, state].reshape(sizes)
        return joint

    def state_after(self, joint: Sequence[int]) -> int:
        """The state that a joint action leads to."""
        return 0 if self.states is None else int(self.states[tuple(joint)])

    def solves(self, joint: Sequence[int]) -> bool:
        """Whether a joint action solves the task."""
        return self.solved is not None and bool(self.solved[tuple(joint)])


def softmax(logits: Table) -> Table:
    """The chances that logits stand for, over the last axis."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    chances: Table = raised / raised.sum(axis=-1, keepdims=True)
    return chances


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
        return self.other(agent)

    def other(self, name: str) -> OneHot:
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
