"""A group of episodes in the terms of credit: rewards, returns, and who is compared with whom.

Episodes of one task form a tree of joint actions. In `chains` each of the G episodes is a branch
of its own; in `tree` every joint action has G children, and an episode is a path to a leaf.

A solved task is an absorbing state, unless the team's `when_solved` says otherwise: the episode
stays in it until the horizon, and earns the last reward again at every turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Literal

from collab.errors import TrainingError
from collab.records import Episode
from collab.stats import mean

Node = tuple[int, int]
"""Position of an episode in its group, and a turn of it: one joint action."""

Key = tuple[int, int, str]
"""Episode, turn and agent."""

Weights = Mapping[Key, float | Sequence[float]]
"""What each response's log-probability is multiplied by: a number for all that the agent said in
the turn, or one for each of its tokens, in the order in which they were drawn."""

Rewards = Mapping[Node, Mapping[str, float]]
"""By joint action and agent."""

Rule = Callable[[Sequence[float]], Sequence[float]]

Choice = Mapping[str, int | None]
"""By agent: which of several joint actions its response is taken from; None for no answer."""

Ask = Callable[[Sequence[Node], Sequence[Choice]], Awaitable[list[Mapping[str, float] | None]]]


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
    """R_t = r_t + gamma x mean of R_t+1 over the joint actions that follow; where the episode
    stays in its solved state for n more turns, r_t + (gamma + .. + gamma^n) x r_t."""
    peers: tuple[tuple[Node, ...], ...]
    """Sets of joint actions that are compared: in `chains` those of one turn, in `tree` the
    children of one joint action."""
    shares: Mapping[Node, float]
    """The part of all play that went through a joint action: 1/G at the first turn."""
    absorbed: Mapping[int, tuple[Mapping[str, float], ...]] = field(default_factory=dict)
    """In `chains`, by turn: what the episodes that were solved before it earn from it on."""
    ask: Ask | None = None
    """Scores further joint actions of the group; see `score`."""

    async def score(
        self, places: Sequence[Node], choices: Sequence[Choice]
    ) -> list[Mapping[str, float] | None]:
        """The rewards, by agent, of joint actions made of responses that were played.

        Args:
            places: joint actions of one set of peers.
            choices: by agent, the position in `places` of the response that it takes part with,
                or None where it is to have answered nothing; agents that are not named take part
                with their response at `places[0]`.

        Returns one mapping for each choice; None where it could not be scored.

        Raises:
            TrainingError: nobody is there to score them, as for a group read from a record.
        """
        if self.ask is None:
            raise TrainingError("this group's joint actions cannot be scored again: it has no task")
        return await self.ask(places, choices)

    def compared(self, places: Sequence[Node], agent: str) -> list[float]:
        """The returns of peers and, for one that plays on alone, of those solved before."""
        returns = [self.returns[place][agent] for place in places]
        if len(places) == 1:
            returns += [earned[agent] for earned in self.absorbed.get(places[0][1], ())]
        return returns


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

    places: tuple[Node, ...]
    children: Mapping[Node, tuple[Node, ...]]
    peers: tuple[tuple[Node, ...], ...]
    shares: Mapping[Node, float]
    solved: Mapping[int, tuple[Node, ...]] = field(default_factory=dict)
    """In `chains`, by turn: the last joint actions of the episodes that were solved before it and
    stay in their solved state."""


def tree_of(episodes: Sequence[Episode], shape: Shape) -> Tree:
    """Find the joint actions, what follows which, and which are compared."""
    place_of: dict[tuple[int, int], Node] = {}
    children: dict[Node | None, list[Node]] = {None: []}
    for number, episode in enumerate(episodes):
        parent: Node | None = None
        for turn in range(len(episode.turns)):
            key = shape.key(episode.sample, turn)
            if key not in place_of:
                place_of[key] = (number, turn)
                children[parent].append((number, turn))
                children[number, turn] = []
            parent = place_of[key]
    places = tuple(place_of.values())
    followers = {place: tuple(children[place]) for place in places}
    shares = _shares(children[None], followers)
    if shape.structure == "tree":
        peers = tuple(tuple(siblings) for siblings in children.values() if siblings)
        return Tree(places, followers, peers, shares)
    turns = sorted({turn for _, turn in places})
    peers = tuple(tuple(p for p in places if p[1] == turn) for turn in turns)
    return Tree(places, followers, peers, shares, {t: _solved_before(episodes, t) for t in turns})


def _solved_before(episodes: Sequence[Episode], turn: int) -> tuple[Node, ...]:
    ends = ((number, len(e.turns) - 1, e.absorbed) for number, e in enumerate(episodes))
    return tuple((number, last) for number, last, n in ends if last < turn <= last + n)


def _shares(roots: Sequence[Node], children: Mapping[Node, tuple[Node, ...]]) -> dict[Node, float]:
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
    *,
    aligned: Rewards | None = None,
    ask: Ask | None = None,
) -> Group:
    """Work out the returns, from the last turn to the first.

    `aligned` are the rewards of the joint actions as they were played, where `rewards` are of
    crossed ones: a solved state goes on earning what its own joint action earned.
    """
    lasting = rewards if aligned is None else aligned
    returns: dict[Node, dict[str, float]] = {}
    for place in sorted(tree.places, key=lambda place: -place[1]):
        following = [returns[child] for child in tree.children[place]]
        again = 0.0 if following else _geometric(discount, episodes[place[0]].absorbed)
        returns[place] = {
            agent: rewards[place][agent]
            + discount * (mean([r[agent] for r in following]) + again * lasting[place][agent])
            for agent in agents
        }
    absorbed = {
        turn: tuple(_from_turn(turn, lasting[p], p, episodes, discount) for p in places)
        for turn, places in tree.solved.items()
    }
    return Group(
        tuple(episodes), tuple(agents), rewards, returns, tree.peers, tree.shares, absorbed, ask
    )


def _from_turn(
    turn: int,
    last: Mapping[str, float],
    place: Node,
    episodes: Sequence[Episode],
    discount: float,
) -> dict[str, float]:
    """What a solved state earns from a turn on that is not played."""
    left = place[1] + 1 + episodes[place[0]].absorbed - turn
    return {agent: _geometric(discount, left) * reward for agent, reward in last.items()}


def _geometric(discount: float, terms: int) -> float:
    """1 + gamma + gamma^2 + .., so many terms."""
    return fsum(discount**k for k in range(terms))


def compare(group: Group, rule: Rule) -> Weights:
    """Apply a rule, from the returns of peers to their weights, to every agent and set of peers.

    Where only one episode still plays, the rule compares it with those that were solved before:
    by itself it would be its own baseline, and the turn would teach the less the better the team.
    """
    weights: dict[Key, float] = {}
    for places in group.peers:
        for agent in group.agents:
            found = rule(group.compared(places, agent))[: len(places)]
            for (episode, turn), weight in zip(places, found, strict=True):
                weights[episode, turn, agent] = weight
    return weights
