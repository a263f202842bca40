"""Credit for the groups of one step: the episodes to compare, and their weights."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collab.errors import TrainingError, convert_error
from collab.recipe import TrainerSpec
from collab.records import Episode, Failure, Problem, Score
from collab.runs import metric_names as names
from collab.stats import Stopwatch
from collab.trainers.credit.base import Algorithm
from collab.trainers.credit.checks import check_weights
from collab.trainers.credit.combinations import Combinations, ScoreCombination
from collab.trainers.credit.group import Group, Weights, group_of
from collab.trainers.credit.normalize import normalize
from collab.trainers.credit.shape import Shape


@dataclass(frozen=True)
class Credit:
    """The groups of a step, and the factors of their responses' log-probabilities."""

    groups: Sequence[Group] = ()
    weights: Sequence[Weights] = ()
    """Weights of each group, in the order of `groups`."""
    failures: Sequence[Failure] = ()
    """Reasons why combinations could not be scored."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the algorithm, and of combinations that were scored.

    `joint_actions/scored` is their number, `/seconds` is the wall time for scoring them, and
    `/waited` is the part of it that did not overlap with sampling.
    """


class StepCredit:
    """Gives credit to the groups of one step.

    Call `prepare` as soon as a group is finished, so the algorithm can prepare it while others are
    sampled. `credit` waits for this and prepares the remaining groups.
    """

    def __init__(
        self,
        score: ScoreCombination,
        *,
        agents: Sequence[str],
        spec: TrainerSpec,
        shape: Shape,
        algorithm: Algorithm,
    ) -> None:
        self._score, self._agents, self._spec = score, agents, spec
        self._shape, self._algorithm = shape, algorithm
        self._n_scored, self._scoring = 0, Stopwatch()
        self._overlapped = 0.0
        """Seconds of scoring before all groups were sampled."""
        self._combinations: list[Combinations] = []
        self._groups: dict[tuple[str, ...], asyncio.Task[Group]] = {}
        """Groups by the names of their episodes."""

    def prepare(self, problem: Problem, episodes: Sequence[Episode]) -> None:
        """Start to prepare a task's episodes for credit, without the failed ones."""
        key = tuple(episode.id for episode in episodes)
        if len(episodes) >= self._spec.min_complete and key not in self._groups:
            self._groups[key] = asyncio.create_task(self._prepare(problem, tuple(episodes)))

    async def credit(self, played: Sequence[tuple[Problem, Sequence[Episode]]]) -> Credit:
        """Return the groups that have enough episodes to compare, with their weights."""
        self._overlapped = self._scoring.seconds
        for problem, episodes in played:
            self.prepare(problem, episodes)
        keys = [tuple(episode.id for episode in episodes) for _, episodes in played]
        groups = [await self._groups[key] for key in keys if key in self._groups]
        try:
            weights = list(await self._algorithm.credit(groups))
            # A number may be one of numpy or torch.
            numbers = {name: float(value) for name, value in self._algorithm.measures().items()}
        except Exception as error:
            raise self._convert_error(error) from error
        check_weights(weights, groups, self._spec.algorithm.use)
        if self._spec.normalize in ("agent", "step"):
            weights = [_response_weights(*pair) for pair in zip(groups, weights, strict=True)]
        weights = normalize(groups, weights, self._spec.normalize, self._algorithm.spreads())
        failures = [failure for each in self._combinations for failure in each.failures]
        return Credit(groups, weights, failures, {**self._measures(), **numbers})

    async def aclose(self) -> None:
        """Cancel all preparations in progress."""
        for task in self._groups.values():
            task.cancel()
        await asyncio.gather(*self._groups.values(), return_exceptions=True)

    async def _prepare(self, problem: Problem, episodes: Sequence[Episode]) -> Group:
        combinations = Combinations(problem, episodes, self._spec, self._score_timed)
        self._combinations.append(combinations)
        group = group_of(episodes, self._agents, self._spec, self._shape, ask=combinations.score)
        try:
            await self._algorithm.prepare(group)
        except Exception as error:
            raise self._convert_error(error) from error
        return group

    async def _score_timed(self, problem: Problem, artifacts: Mapping[str, str]) -> Score:
        self._n_scored += 1
        with self._scoring:
            return await self._score(problem, artifacts)

    def _measures(self) -> dict[str, float]:
        if not self._n_scored:
            return {}
        seconds = self._scoring.seconds
        return {
            names.COMBINATIONS_SCORED: self._n_scored,
            names.COMBINATIONS_SECONDS: seconds,
            names.COMBINATIONS_WAITED: seconds - self._overlapped,
        }

    def _convert_error(self, error: Exception) -> Exception:
        return convert_error(error, TrainingError, f"algorithm '{self._spec.algorithm.use}'")


def _response_weights(group: Group, weights: Weights) -> Weights:
    """Return the weights of an agent's own responses, without turns in which it did not act."""
    return {key: weights[key] for key in weights if group.acted(key[:2], key[2])}
