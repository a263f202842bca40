"""Credit for the groups of one step: the compared episodes, and their weights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite

from collab.errors import TrainingError, attribute
from collab.recipe import TrainerSpec
from collab.records import Episode, Failure, Problem, Score
from collab.runs import metric_names
from collab.trainers.credit.base import Algorithm
from collab.trainers.credit.group import (
    Group,
    Node,
    Weights,
    make_group,
    tree_of,
)
from collab.trainers.credit.joint_actions import JointActions, ScoreJointAction, reward_of
from collab.trainers.credit.normalise import normalise
from collab.trainers.credit.shape import Shape


def group_of(
    episodes: Sequence[Episode],
    joint: JointActions,
    *,
    agents: Sequence[str],
    spec: TrainerSpec,
    shape: Shape,
) -> Group:
    """Return the group of one task's complete episodes; `joint` scores further joint actions."""
    tree = tree_of(episodes, shape)
    rewards: dict[Node, dict[str, float]] = {}
    for node in tree.nodes:
        score = episodes[node[0]].turns[node[1]].score
        assert score is not None, "an episode without a score has no reward"
        rewards[node] = {agent: reward_of(score, agent, spec) for agent in agents}
    return make_group(episodes, agents, rewards, tree, spec.discount, ask=joint.score)


def check_weights(weights: Sequence[Weights], groups: Sequence[Group], algorithm: str) -> None:
    """Refuse invalid weights from a third party's algorithm."""
    if len(weights) != len(groups):
        raise TrainingError(
            f"algorithm '{algorithm}' returned weights for {len(weights)} groups, not {len(groups)}"
        )
    for group, given in zip(groups, weights, strict=True):
        for (episode, turn, agent), weight in given.items():
            whole = episode < len(group.episodes) and turn < len(group.episodes[episode].turns)
            if not whole or agent not in group.agents:
                raise TrainingError(
                    f"algorithm '{algorithm}' returned a weight for episode {episode}, turn {turn},"
                    f" agent '{agent}', which the group does not have"
                )
            numbers = weight if isinstance(weight, Sequence) else [weight]
            if not all(map(isfinite, numbers)):
                raise TrainingError(
                    f"algorithm '{algorithm}' returned the weight {weight} for agent '{agent}' on"
                    f" {group.task}"
                )


Key = tuple[str, ...]
"""A group, identified by the names of its episodes."""


@dataclass(frozen=True)
class Credit:
    """The groups of a step, and the factors of their responses' log-probabilities."""

    groups: Sequence[Group] = ()
    weights: Sequence[Weights] = ()
    """Weights of each group, in the order of `groups`."""
    failures: Sequence[Failure] = ()
    """Reasons why joint actions that were not played could not be scored."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the algorithm, and of further joint actions that were scored.

    `joint_actions/scored` is their number; `/seconds` the wall time of scoring them; `/waited` the
    part of it that did not overlap with sampling.
    """


class StepCredit:
    """Gives credit to the groups of one step.

    Call `see` as soon as a group is played, so the algorithm can prepare it while others are
    sampled. `credit` waits for this and prepares the remaining groups.
    """

    def __init__(
        self,
        score: ScoreJointAction,
        *,
        agents: Sequence[str],
        spec: TrainerSpec,
        shape: Shape,
        algorithm: Algorithm,
    ) -> None:
        self._score, self._agents, self._spec = score, agents, spec
        self._shape, self._algorithm = shape, algorithm
        self._clock = JudgeClock()
        self._joint: list[JointActions] = []
        self._groups: dict[Key, asyncio.Task[Group]] = {}

    def see(self, problem: Problem, episodes: Sequence[Episode]) -> None:
        """Start on a task's episodes, without the failed ones."""
        key = tuple(episode.id for episode in episodes)
        enough = len(episodes) >= min(2, self._spec.group_size)
        if enough and key not in self._groups:
            self._groups[key] = asyncio.create_task(self._prepare(problem, tuple(episodes)))

    async def credit(self, played: Sequence[tuple[Problem, Sequence[Episode]]]) -> Credit:
        """Return the groups that can be compared, with their weights."""
        self._clock.sampled()
        for problem, episodes in played:
            self.see(problem, episodes)
        keys = [tuple(episode.id for episode in episodes) for _, episodes in played]
        groups = [await self._groups[key] for key in keys if key in self._groups]
        weights = await self._ask(groups)
        check_weights(weights, groups, self._spec.algorithm.use)
        weights = normalise(groups, weights, self._spec.normalise, self._algorithm.spreads())
        measures = {**dict(self._clock.measures()), **self._algorithm.measures()}
        failures = [failure for joint in self._joint for failure in joint.failures]
        return Credit(groups, weights, failures, measures)

    async def aclose(self) -> None:
        """Stop all preparations."""
        for task in self._groups.values():
            task.cancel()
        await asyncio.gather(*self._groups.values(), return_exceptions=True)

    async def _prepare(self, problem: Problem, episodes: Sequence[Episode]) -> Group:
        joint = JointActions(problem, episodes, self._spec, self._judge)
        self._joint.append(joint)
        group = group_of(episodes, joint, agents=self._agents, spec=self._spec, shape=self._shape)
        try:
            await self._algorithm.prepare(group)
        except Exception as error:
            raise self._attributed(error) from error
        return group

    async def _judge(self, problem: Problem, artefacts: Mapping[str, str]) -> Score:
        with self._clock.judging():
            return await self._score(problem, artefacts)

    async def _ask(self, groups: Sequence[Group]) -> list[Weights]:
        try:
            return list(await self._algorithm.credit(groups))
        except Exception as error:
            raise self._attributed(error) from error

    def _attributed(self, error: Exception) -> Exception:
        return attribute(error, TrainingError, f"algorithm '{self._spec.algorithm.use}'")


class JudgeClock:
    """Measures the wall time of scoring joint actions that were not played."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self._running = 0
        self._since = 0.0
        self._hidden: float | None = None

    @contextmanager
    def judging(self) -> Iterator[None]:
        """While entered, count one joint action as being scored."""
        self._settle()
        self._running += 1
        self.calls += 1
        try:
            yield
        finally:
            self._settle()
            self._running -= 1

    def sampled(self) -> None:
        """Note the end of sampling: from now on the step waits for the scoring."""
        self._settle()
        self._hidden = self.seconds

    def measures(self) -> Iterator[tuple[str, float]]:
        """Yield the metrics; none if no further joint action was scored."""
        if self.calls:
            self._settle()
            yield metric_names.FURTHER_SCORED, self.calls
            yield metric_names.FURTHER_SECONDS, self.seconds
            yield metric_names.FURTHER_WAITED, self.seconds - (self._hidden or 0.0)

    def _settle(self) -> None:
        now = time.perf_counter()
        if self._running:
            self.seconds += now - self._since
        self._since = now
