"""From played groups to weights: each agent's rewards, then the algorithm."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import fsum, isfinite

from collab.errors import CollabError, TrainingError
from collab.recipe import TrainerSpec
from collab.records import Episode, Failure, Problem, Score, Turn, failure_of
from collab.runtime import Session
from collab.trainers.algorithms import Algorithm, Group, Place, Weights
from collab.trainers.algorithms.group import Shape, Tree, make_group, tree_of
from collab.trainers.algorithms.normalise import normalise
from collab.trainers.rollouts import Played

MAX_COMBINATIONS = 4096
"""Joint actions that `cross` scores at one turn of one group."""

_AT_ONCE = 64


@dataclass(frozen=True)
class Credited:
    """A group and what its responses are multiplied by."""

    group: Group
    weights: Weights


async def give_credit(
    session: Session,
    played: Sequence[Played],
    *,
    agents: Sequence[str],
    spec: TrainerSpec,
    shape: Shape,
    algorithm: Algorithm,
) -> tuple[list[Credited], list[Failure]]:
    """The groups that can be compared, with their weights.

    Also returns the failures of the further joint actions that `cross` scores.
    """
    groups, failures = [], []
    for item in played:
        episodes = item.whole
        if len(episodes) < min(2, spec.group_size):
            continue
        tree = tree_of(episodes, shape)
        aligned = {
            place: {agent: reward_of(_score_at(episodes, place), agent, spec) for agent in agents}
            for place in tree.places
        }
        rewards = aligned
        if spec.joint_mode == "cross":
            rewards, failed = await _crossed(
                session, item.problem, episodes, tree, agents=agents, spec=spec
            )
            failures += failed
        groups.append(make_group(episodes, agents, rewards, tree, spec.discount, aligned=aligned))
    weights = [_checked(algorithm(group), group, spec.algorithm) for group in groups]
    weights = normalise(groups, weights, spec.normalise)
    return [Credited(g, w) for g, w in zip(groups, weights, strict=True)], failures


def reward_of(score: Score, agent: str, spec: TrainerSpec) -> float:
    """r_i = team_weight x r + the points of the agent's own parts."""
    own = spec.local_parts.get(agent, ())
    return spec.team_weight * score.reward + fsum(p.points for p in score.parts if p.name in own)


def _score_at(episodes: Sequence[Episode], place: Place) -> Score:
    score = episodes[place[0]].turns[place[1]].score
    assert score is not None, "episodes without a score are not whole"
    return score


async def _crossed(
    session: Session,
    problem: Problem,
    episodes: Sequence[Episode],
    tree: Tree,
    *,
    agents: Sequence[str],
    spec: TrainerSpec,
) -> tuple[dict[Place, dict[str, float]], list[Failure]]:
    """Score every combination of the peers' responses; a response gets the mean of its own.

    An agent whose answer is not in the joint artefact gets its own joint action's reward.
    """
    rewards: dict[Place, dict[str, float]] = {}
    failures: list[Failure] = []
    slots = asyncio.Semaphore(_AT_ONCE)

    async def score(artefacts: Mapping[str, str]) -> Score | Failure:
        async with slots:
            try:
                return await session.score(problem, artefacts)
            except CollabError as error:
                return failure_of(error)

    for places in tree.peers:
        made = [_joined(episodes[episode].turns[turn]) for episode, turn in places]
        team = list(made[0])
        if any(list(other) != team for other in made):
            raise TrainingError(
                "joint_mode 'cross' needs the same agents' answers in every joint artefact, and the"
                f" team's protocol chose others in {problem.address}; set joint_mode to 'aligned'"
            )
        choices = list(product(range(len(places)), repeat=len(team)))
        known = {(n,) * len(team): _score_at(episodes, place) for n, place in enumerate(places)}
        missing = [choice for choice in choices if choice not in known]
        found = await asyncio.gather(
            *(score({a: made[n][a] for a, n in zip(team, c, strict=True)}) for c in missing)
        )
        results: dict[tuple[int, ...], Score | Failure] = {
            **known,
            **dict(zip(missing, found, strict=True)),
        }
        failures += [result for result in results.values() if isinstance(result, Failure)]
        for position, place in enumerate(places):
            rewards[place] = {
                agent: _mean_reward(results, team.index(agent), position, agent, spec)
                if agent in team
                else reward_of(_score_at(episodes, place), agent, spec)
                for agent in agents
            }
    return rewards, failures


def _joined(turn: Turn) -> dict[str, str]:
    """The artefacts that make the joint one."""
    names = turn.artefacts if turn.joined is None else turn.joined
    return {name: turn.artefacts[name] for name in names}


def _mean_reward(
    results: Mapping[tuple[int, ...], Score | Failure],
    slot: int,
    position: int,
    agent: str,
    spec: TrainerSpec,
) -> float:
    own = [
        reward_of(result, agent, spec)
        for choice, result in results.items()
        if choice[slot] == position and isinstance(result, Score)
    ]
    return fsum(own) / len(own)


def _checked(weights: Weights, group: Group, algorithm: str) -> Weights:
    """Refuse what a third party's algorithm must not give."""
    for (episode, turn, agent), weight in weights.items():
        whole = episode < len(group.episodes) and turn < len(group.episodes[episode].turns)
        if not whole or agent not in group.agents:
            raise TrainingError(
                f"algorithm '{algorithm}' gave a weight to episode {episode}, turn {turn}, agent"
                f" '{agent}', which the group does not have"
            )
        if not isfinite(weight):
            raise TrainingError(
                f"algorithm '{algorithm}' gave the weight {weight} to agent '{agent}' on"
                f" {group.episodes[episode].task}"
            )
    return weights
