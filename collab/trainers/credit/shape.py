"""How the episodes of a group follow from each other."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from collab.recipe.trainer import TurnStructure


@dataclass(frozen=True)
class Further:
    """Episodes that are played beside those of a group, which nothing is learned from."""

    silent: tuple[str, ...] = ()
    """Agents that are not asked in as many further episodes as the group has; () for none."""
    continuations: int = 0
    """Of chains: how often the rest of an episode is played anew from each state on its way."""

    @property
    def none(self) -> bool:
        """Whether there are none."""
        return not (self.silent or self.continuations)


@dataclass(frozen=True)
class Shape:
    """How the episodes of a group follow from each other: G chains, one tree, or its best path."""

    structure: TurnStructure
    group_size: int
    n_turns: int
    fan_out: tuple[int, ...] = ()
    """Of one turn whose agents act one after the other: how often each of them answers to the same
    answers before its own, G in all; () where every episode draws all of its answers."""
    further: Further = Further()
    """What is played beside them."""

    @property
    def roots(self) -> int:
        """How many episodes are begun with."""
        return self.fan_out[0] if self.fan_out else self.group_size

    @property
    def siblings_share_state(self) -> bool:
        """Whether joint actions that are compared have the same history."""
        return self.structure != "chains"

    @property
    def episodes(self) -> int:
        """How many episodes a group has, at most."""
        if self.structure == "greedy":
            return self.n_turns * (self.group_size - 1) + 1
        return self.group_size * self.leaves(0)

    @property
    def further_episodes(self) -> int:
        """How many further episodes there are, at most."""
        rest = self.episodes * (self.n_turns - 1) * self.further.continuations
        return rest + (self.episodes if self.further.silent else 0)

    def solo(self, sample: int) -> int:
        """The sample that is played beside `sample` without the silent agents."""
        return self.episodes + sample

    def continuation(self, sample: int, turn: int, number: int) -> int:
        """The sample that plays the rest of `sample` anew from the state after `turn`."""
        state = sample * (self.n_turns - 1) + turn
        solo = self.episodes if self.further.silent else 0
        return self.episodes + solo + state * self.further.continuations + number

    def beside_which(self, sample: int) -> tuple[int, int]:
        """The sample that a further one is played beside; and of a continuation the turn after
        which it goes on by itself, else -1."""
        number = sample - self.episodes
        if self.further.silent:
            if number < self.episodes:
                return number, -1
            number -= self.episodes
        return divmod(number // self.further.continuations, self.n_turns - 1)

    def first(self, sibling: int) -> int:
        """The sample that begins with the sibling of that number in the first turn."""
        return sibling * (self.leaves(0) if not self.fan_out else prod(self.fan_out[1:]))

    def child(self, sample: int, turn: int, sibling: int) -> int:
        """The sample that goes on from `sample` with that sibling in `turn`."""
        if self.structure == "greedy":
            return turn * self.group_size + sibling
        return sample + sibling * self.leaves(turn)

    def key(self, sample: int, turn: int) -> tuple[int, int]:
        """A key that is equal for the episodes that share the joint action at `turn`."""
        if self.structure == "tree":
            return turn, sample // self.leaves(turn)
        shared = self.structure == "greedy" and turn < sample // self.group_size
        return turn, BEST if shared else sample

    def branches(self, sample: int) -> tuple[int, ...]:
        """With `fan_out`: by agent, the number of its answer among those to the same answers."""
        numbers = []
        for size in reversed(self.fan_out):
            sample, number = divmod(sample, size)
            numbers.append(number)
        return tuple(reversed(numbers))

    def beside(self, sample: int) -> list[tuple[int, int]]:
        """With `fan_out`: the samples that take answers of `sample` as given, and how many.

        Of those before it in the order of acting, each agent's first answer is the one taken on.
        """
        own = self.branches(sample)
        last = max((n for n, number in enumerate(own) if number), default=0)
        return [
            (sample + number * prod(self.fan_out[place + 1 :]), place)
            for place in range(last + 1, len(own))
            for number in range(1, self.fan_out[place])
        ]

    def leaves(self, turn: int) -> int:
        """The number of episodes of a tree that may go through one joint action at `turn`."""
        if self.structure != "tree":
            return 1
        return int(self.group_size ** (self.n_turns - 1 - turn))


BEST = -1
"""In `greedy`, in place of a sample: the sibling that the turns after it go on from."""
