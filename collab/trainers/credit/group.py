"""A group of episodes, as used for credit: its rewards, its returns, and the sets to compare.

Episodes of one task form a tree of joint actions. In `chains`, each of the G episodes is a separate
branch. In `tree`, every joint action has G children, and an episode is a path to a leaf. In
`greedy`, only the best of G siblings has children, and the episodes of the others end there.

A solved task is an absorbing state, unless the team's `when_solved` says otherwise. The episode
stays in it until the horizon, and earns the last reward again at every turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

from collab.recipe import TrainerSpec
from collab.records import Episode, Score, Turn
from collab.stats import mean
from collab.trainers.credit.shape import Shape

Node = tuple[int, int]
"""One joint action: an episode's position in its group, and a turn."""

ResponseKey = tuple[int, int, str]
"""One agent's responses in a turn: the episode's position in its group, the turn, the agent."""

Weights = Mapping[ResponseKey, float | Sequence[float]]
"""Factor of each response's log-probability: one for the agent's whole turn, or one per token."""

Rewards = Mapping[Node, Mapping[str, float]]
"""A reward or return for each joint action, by agent."""

Advantages = Callable[[Sequence[float]], Sequence[float]]
"""Maps compared returns to the advantage of each, in the same order."""

Choice = Mapping[str, int | None]
"""Index of the joint action with each agent's response, or None for no answer."""

ScoreChoices = Callable[
    [Sequence[Node], Sequence[Choice]], Awaitable[list[Mapping[str, float] | None]]
]
"""Scores combinations, like `Group.score`."""


@dataclass(frozen=True)
class Group:
    """Episodes of one task, without failures.

    If several episodes of a tree share a joint action, its node belongs to the first of them.
    """

    episodes: tuple[Episode, ...]
    agents: tuple[str, ...]
    """Names of the trained agents."""
    rewards: Rewards
    """Rewards r_t, the same for every agent unless it has local parts."""
    returns: Rewards
    """Returns R_t = r_t + gamma x mean of R_t+1 over the following joint actions. If the episode
    stays in its solved state for n more turns, R_t = r_t + (gamma + .. + gamma^n) x r_t. In
    `greedy`, R_t = r_t, because only one sibling is continued."""
    baselines_over: tuple[tuple[Node, ...], ...]
    """Sets of joint actions whose returns form a baseline: in `chains` the joint actions of one
    turn, in `tree` and `greedy` the children of one joint action."""
    visit_share: Mapping[Node, float]
    """Share of the play through a joint action: 1/G at the first turn, in `greedy` at every one."""
    absorbed: Mapping[int, tuple[Mapping[str, float], ...]] = field(default_factory=dict)
    """In `chains`, by turn: the remaining rewards of episodes that ended earlier, 0 unless a solved
    task is an absorbing state."""
    ask: ScoreChoices | None = None
    """Scores combinations of the group's responses. See `score`."""
    children: Mapping[Node, tuple[Node, ...]] = field(default_factory=dict)
    """Following joint actions that enter each one's return: none in `greedy`."""
    discount: float = 1.0
    """Discount gamma."""

    @property
    def task(self) -> str:
        """Address of the group's task, e.g. `humaneval/12`."""
        return self.episodes[0].task

    def turn(self, node: Node) -> Turn:
        """Return the turn of a joint action."""
        return self.episodes[node[0]].turns[node[1]]

    def acted(self, node: Node, agent: str) -> bool:
        """Return True if the agent has a response in a joint action."""
        return any(decision.agent == agent for decision in self.turn(node).decisions)

    async def score(
        self, nodes: Sequence[Node], choices: Sequence[Choice]
    ) -> list[Mapping[str, float] | None]:
        """Return the rewards, by agent, of combinations of played responses.

        Args:
            nodes: joint actions of one set of `baselines_over`.
            choices: one mapping per combination, from an agent to the position in `nodes` of
                its response, or None for an empty answer; an agent without an entry keeps its
                response at `nodes[0]`.

        Return one mapping per choice, or None for a choice that could not be scored.
        """
        assert self.ask is not None, "the group was made to compare played joint actions only"
        return await self.ask(nodes, choices)

    def compared(self, nodes: Sequence[Node], agent: str) -> list[float]:
        """Return the returns of `agent` that form one baseline.

        These are the returns of `nodes`. If only one episode is still running, they also include
        the remaining earnings of episodes that ended earlier.
        """
        returns = [self.returns[node][agent] for node in nodes]
        if len(nodes) == 1:
            returns += [earned[agent] for earned in self.absorbed.get(nodes[0][1], ())]
        return returns


def reward_of(score: Score, agent: str, spec: TrainerSpec) -> float:
    """Return an agent's reward: `team_weight` x r + the points of the agent's own parts.

    r is the joint reward, or the agent's own reward if a game pays its seats unequally.
    """
    weights = spec.local_parts.get(agent, {})
    earned = score.by_agent.get(agent, score.reward)
    return spec.team_weight * earned + fsum(
        part.points if (weight := weights[part.name]) is None else weight * part.value
        for part in score.parts
        if part.name in weights and part.applies
    )


def group_of(
    episodes: Sequence[Episode],
    agents: Sequence[str],
    spec: TrainerSpec,
    shape: Shape,
    *,
    ask: ScoreChoices,
) -> Group:
    """Return the group of one task's complete episodes. `ask` scores combinations."""

    def rewards_at(node: Node) -> dict[str, float]:
        score = episodes[node[0]].turns[node[1]].score
        assert score is not None, "an episode without a score has no reward"
        return {agent: reward_of(score, agent, spec) for agent in agents}

    return make_group(episodes, agents, rewards_at, shape, spec.discount, ask=ask)


def make_group(
    episodes: Sequence[Episode],
    agents: Sequence[str],
    rewards_at: Callable[[Node], Mapping[str, float]],
    shape: Shape,
    discount: float = 1.0,
    *,
    ask: ScoreChoices | None = None,
) -> Group:
    """Return the group of these episodes, which branch as `shape` says.

    Args:
        rewards_at: returns the reward of each agent for a joint action.
    """
    roots, following = _branches(episodes, shape)
    greedy = shape.structure == "greedy"
    rewards = {node: rewards_at(node) for node in following}
    absorbed = {}
    if shape.siblings_share_state:
        baselines_over = tuple(filter(None, (roots, *following.values())))
    else:
        turns = sorted({turn for _, turn in following})
        baselines_over = tuple(tuple(n for n in following if n[1] == turn) for turn in turns)
        absorbed = {turn: _earned_after_end(episodes, rewards, turn, discount) for turn in turns}
    if greedy:
        visit_share = {node: 1 / len(nodes) for nodes in baselines_over for node in nodes}
        children: Children = dict.fromkeys(following, ())
    else:
        visit_share, children = _visit_share(roots, following), following
    returns: dict[Node, dict[str, float]] = {}
    for node in sorted(children, key=lambda node: -node[1]):
        next_returns = [returns[child] for child in children[node]]
        is_last = not (next_returns or greedy)
        repeats = _geometric_sum(discount, episodes[node[0]].absorbed) if is_last else 0.0
        returns[node] = {
            agent: rewards[node][agent]
            + discount * (mean([r[agent] for r in next_returns]) + repeats * rewards[node][agent])
            for agent in agents
        }
    return Group(
        tuple(episodes),
        tuple(agents),
        rewards,
        returns,
        baselines_over,
        visit_share,
        absorbed,
        ask,
        children,
        discount,
    )


Children = dict[Node, tuple[Node, ...]]
"""The following joint actions of each joint action."""


def _branches(episodes: Sequence[Episode], shape: Shape) -> tuple[tuple[Node, ...], Children]:
    """Return the first joint actions, and those that follow each. Common beginnings are shared."""
    node_of: dict[tuple[int, int], Node] = {}
    children: dict[Node | None, list[Node]] = {None: []}
    for number, episode in enumerate(episodes):
        parent: Node | None = None
        for turn in range(len(episode.turns)):
            key = shape.key(episode.sample, turn)
            if key not in node_of:
                node_of[key] = (number, turn)
                children[parent].append((number, turn))
                children[number, turn] = []
            parent = node_of[key]
    return tuple(children[None]), {node: tuple(children[node]) for node in node_of.values()}


def _visit_share(roots: Sequence[Node], children: Children) -> dict[Node, float]:
    shares = dict.fromkeys(roots, 1.0 / max(len(roots), 1))
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        for child in children[node]:
            shares[child] = shares[node] / len(children[node])
            waiting.append(child)
    return shares


def compare(group: Group, advantages: Advantages) -> Weights:
    """Return the weights of a group, from advantages within each baseline set.

    `advantages` is called once for every agent and every set of `group.baselines_over`. If only one
    episode is still running, it is compared with episodes that ended earlier.
    """
    weights: dict[ResponseKey, float] = {}
    for nodes in group.baselines_over:
        for agent in group.agents:
            values = advantages(group.compared(nodes, agent))[: len(nodes)]
            for (episode, turn), weight in zip(nodes, values, strict=True):
                weights[episode, turn, agent] = weight
    return weights


def _earned_after_end(
    episodes: Sequence[Episode], rewards: Rewards, turn: int, discount: float
) -> tuple[Mapping[str, float], ...]:
    """Return what each episode that ended earlier earns from `turn` on, by agent."""
    earned = []
    for number, episode in enumerate(episodes):
        last = len(episode.turns) - 1
        if last < turn:
            share = _geometric_sum(discount, last + 1 + episode.absorbed - turn)
            earned.append({a: share * reward for a, reward in rewards[number, last].items()})
    return tuple(earned)


def _geometric_sum(discount: float, terms: int) -> float:
    """Return 1 + gamma + gamma^2 + .., a sum of `terms` terms with gamma = `discount`, or 0."""
    return fsum(discount**k for k in range(terms))
