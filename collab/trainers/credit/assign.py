"""From episodes to a group: each agent's rewards. And what an algorithm may not give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import isfinite

from collab.errors import TrainingError
from collab.recipe import TrainerSpec
from collab.records import Episode, Score
from collab.stats import mean
from collab.trainers.credit import Group, Node, Weights
from collab.trainers.credit.group import (
    FurtherEpisode,
    Rewards,
    Tree,
    make_group,
    own_episodes,
    tree_of,
)
from collab.trainers.credit.joint_actions import JointActions, reward_of
from collab.trainers.credit.shape import Shape

MAX_COMBINATIONS = 4096
"""The most joint actions that `cross` may score at one turn of one group."""


async def group_of(
    episodes: Sequence[Episode],
    joint: JointActions,
    *,
    agents: Sequence[str],
    spec: TrainerSpec,
    shape: Shape,
) -> Group:
    """A task's episodes in the terms of credit; `joint` scores joint actions beside them.

    Episodes that were played beside the group stand in its `further`.
    """
    played, episodes = episodes, own_episodes(episodes)
    tree = tree_of(episodes, shape)
    aligned = {
        node: {agent: reward_of(_score_at(episodes, node), agent, spec) for agent in agents}
        for node in tree.nodes
    }
    rewards: Rewards = aligned
    if spec.joint_mode == "cross":
        rewards = await _crossed(joint, tree, aligned, agents)
    group = make_group(
        episodes, agents, rewards, tree, spec.discount, aligned=aligned, ask=joint.score
    )
    return replace(group, further=_further(played, agents, spec, shape))


def _further(
    played: Sequence[Episode], agents: Sequence[str], spec: TrainerSpec, shape: Shape
) -> tuple[FurtherEpisode, ...]:
    """Those of a group's whole episodes that were played beside it.

    Those that belong to an episode of the group that was lost are left out.
    """
    numbers = {episode.sample: n for n, episode in enumerate(own_episodes(played))}
    found = []
    for episode in played:
        if not episode.further:
            continue
        sample, turn = shape.beside_which(episode.sample)
        if sample in numbers:
            scores = [t.score for t in episode.turns if t.score]
            rewards = tuple({a: reward_of(s, a, spec) for a in agents} for s in scores)
            found.append(FurtherEpisode(episode, (numbers[sample], turn), rewards))
    return tuple(found)


def _score_at(episodes: Sequence[Episode], node: Node) -> Score:
    score = episodes[node[0]].turns[node[1]].score
    assert score is not None, "episodes without a score are not whole"
    return score


async def _crossed(
    joint: JointActions, tree: Tree, aligned: Rewards, agents: Sequence[str]
) -> Rewards:
    """Score every combination of the responses that are compared; each gets the mean over its own.

    An agent whose answer is not in the joint artefact gets its own joint action's reward.
    """
    rewards: dict[Node, Mapping[str, float]] = {}
    for nodes in tree.baselines_over:
        team = joint.team(nodes)
        choices = list(product(range(len(nodes)), repeat=len(team)))
        missing = [choice for choice in choices if len(set(choice)) > 1]
        found = await joint.score(nodes, [dict(zip(team, c, strict=True)) for c in missing])
        results = {(n,) * len(team): aligned[node] for n, node in enumerate(nodes)}
        results |= {c: r for c, r in zip(missing, found, strict=True) if r is not None}
        for position, node in enumerate(nodes):
            rewards[node] = {
                agent: _mean_reward(results, team.index(agent), position, agent)
                if agent in team
                else aligned[node][agent]
                for agent in agents
            }
    return rewards


def _mean_reward(
    results: Mapping[tuple[int, ...], Mapping[str, float]], slot: int, position: int, agent: str
) -> float:
    own = [result[agent] for choice, result in results.items() if choice[slot] == position]
    return mean(own)


def check_weights(weights: Sequence[Weights], groups: Sequence[Group], algorithm: str) -> None:
    """Refuse what a third party's algorithm must not give."""
    if len(weights) != len(groups):
        raise TrainingError(
            f"algorithm '{algorithm}' gave the weights of {len(weights)} groups, not {len(groups)}"
        )
    for group, given in zip(groups, weights, strict=True):
        for (episode, turn, agent), weight in given.items():
            whole = episode < len(group.episodes) and turn < len(group.episodes[episode].turns)
            if not whole or agent not in group.agents:
                raise TrainingError(
                    f"algorithm '{algorithm}' gave a weight to episode {episode}, turn {turn},"
                    f" agent '{agent}', which the group does not have"
                )
            numbers = weight if isinstance(weight, Sequence) else [weight]
            if not all(map(isfinite, numbers)):
                raise TrainingError(
                    f"algorithm '{algorithm}' gave the weight {weight} to agent '{agent}' on"
                    f" {group.task}"
                )
