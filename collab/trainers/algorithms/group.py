"""A group of episodes in the terms of credit: rewards, returns, and who is compared with whom.

Episodes of one task form a tree of joint actions. In `chains` each of the G episodes is a branch
of its own; in `tree` every joint action has G children, and an episode is a path to a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

from collab.records import Episode

Place = tuple[int, int]
"""Position of an episode in its group, and a turn of it: one joint action."""

Weights = Mapping[tuple[int, int, str], float]
"""By episode, turn and agent: what the response's log-probability is multiplied by."""

Rewards = Mapping[Place, Mapping[str, float]]
"""By joint action and agent."""

Rule = Callable[[Sequence[float]], Sequence[float]]


@dataclass(frozen=True)
class Group:
    """Episodes of one task, without failures.

    A joint action that several episodes share, in a tree, has its place in the first of them.
    """

    episodes: tuple[Episode, ...]
    agents: tuple[str, ...]
    """Those that are trained."""
    rewards: Rewards
    """r_t; the same for every agent unless it has local parts or joint actions are crossed."""
    returns: Rewards
    """R_t = r_t + gamma x mean of R_t+1 over the joint actions that follow."""
    peers: tuple[tuple[Place, ...], ...]
    """Sets of joint actions that are compared: in `chains` those of one turn, in `tree` the
    children of one joint action."""
    shares: Mapping[Place, float]
    """The part of all play that went through a joint action: 1/G at the first turn."""


@dataclass(frozen=True)
class Shape:
    """How the episodes of a group hang together."""

    structure: Literal["chains", "tree"]
    group_size: int
    n_turns: int

    def key(self, sample: int, turn: int) -> tuple[int, int]:
        """Equal for the episodes that share the joint action at `turn`."""
        if self.structure == "chains":
            return turn, sample
        return turn, sample // self.leaves(turn)

    def leaves(self, turn: int) -> int:
        """Episodes that may go through one joint action at `turn`."""
        if self.structure == "chains":
            return 1
        return int(self.group_size ** (self.n_turns - 1 - turn))


@dataclass(frozen=True)
class Tree:
    """The joint actions of a group."""

    places: tuple[Place, ...]
    children: Mapping[Place, tuple[Place, ...]]
    peers: tuple[tuple[Place, ...], ...]
    shares: Mapping[Place, float]


def tree_of(episodes: Sequence[Episode], shape: Shape) -> Tree:
    """Find the joint actions, what follows which, and which are compared."""
    place_of: dict[tuple[int, int], Place] = {}
    children: dict[Place | None, list[Place]] = {None: []}
    for number, episode in enumerate(episodes):
        parent: Place | None = None
        for turn in range(len(episode.turns)):
            key = shape.key(episode.sample, turn)
            if key not in place_of:
                place_of[key] = (number, turn)
                children[parent].append((number, turn))
                children[number, turn] = []
            parent = place_of[key]
    places = tuple(place_of.values())
    followers = {place: tuple(children[place]) for place in places}
    if shape.structure == "tree":
        peers = tuple(tuple(siblings) for siblings in children.values() if siblings)
    else:
        turns = sorted({turn for _, turn in places})
        peers = tuple(tuple(p for p in places if p[1] == turn) for turn in turns)
    return Tree(places, followers, peers, _shares(children[None], followers))


def _shares(
    roots: Sequence[Place], children: Mapping[Place, tuple[Place, ...]]
) -> dict[Place, float]:
    shares = dict.fromkeys(roots, 1.0 / max(len(roots), 1))
    waiting = list(roots)
    while waiting:
        place = waiting.pop()
        for child in children[place]:
            shares[child] = shares[place] / len(children[place])
            waiting.append(child)
    return shares


def make_group(
    episodes: Sequence[Episode],
    agents: Sequence[str],
    rewards: Rewards,
    tree: Tree,
    discount: float,
) -> Group:
    """Work out the returns, from the last turn to the first."""
    returns: dict[Place, dict[str, float]] = {}
    for place in sorted(tree.places, key=lambda place: -place[1]):
        following = [returns[child] for child in tree.children[place]]
        returns[place] = {
            agent: rewards[place][agent] + discount * _mean([r[agent] for r in following])
            for agent in agents
        }
    return Group(tuple(episodes), tuple(agents), rewards, returns, tree.peers, tree.shares)


def compare(group: Group, rule: Rule) -> Weights:
    """Apply a rule, from the returns of peers to their weights, to every agent and set of peers."""
    weights: dict[tuple[int, int, str], float] = {}
    for places in group.peers:
        for agent in group.agents:
            returns = [group.returns[place][agent] for place in places]
            for (episode, turn), weight in zip(places, rule(returns), strict=True):
                weights[episode, turn, agent] = weight
    return weights


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0
