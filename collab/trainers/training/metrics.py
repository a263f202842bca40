"""Computes the metrics of a step."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from math import fsum

from collab.models.base import SamplerReport
from collab.recipe import TrainerSpec
from collab.records import Action, Episode
from collab.records.episode import solved_by_turn, solved_flags
from collab.rewards.library import MEASURES
from collab.runs import metric_names as names
from collab.runtime.summary import warn_failed_feedback
from collab.stats import deviation, mean
from collab.trainers.credit.group import Group
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.policy import Policies
from collab.trainers.learner.samples import is_dead
from collab.trainers.learner.update import KL_TOKENS, TOKENS, TokenSums, Update
from collab.trainers.training.rollouts import finished_episodes
from collab.trainers.training.skipping import WHOLE_STEP, lost_group_warnings, no_weight_warnings


@dataclass(frozen=True)
class StepEpisodes:
    """The episodes of a step, and the times of their sampling."""

    groups: Sequence[Sequence[Episode]] = ()
    """Episodes of each task, failed ones included. Recorded episodes are not among them."""
    times: dict[str, float] = field(default_factory=dict)
    """Seconds by kind of work, and of the whole `step`."""
    sampler: SamplerReport = field(default_factory=SamplerReport)
    """Load of separate sampling engines while the step was sampled."""

    @property
    def episodes(self) -> list[Episode]:
        return [episode for group in self.groups for episode in group]

    @property
    def actions(self) -> list[Action]:
        """The actions of the step, each once. Episodes of a tree share some of them."""
        return [*{id(d.action): d.action for e in self.episodes for d in e.decisions()}.values()]

    @property
    def new_tokens(self) -> int:
        """Number of generated tokens."""
        return sum(action.new_tokens for action in self.actions)


@dataclass(frozen=True, kw_only=True)
class StepData(StepEpisodes):
    """A step's episodes, their credit, and the update that was learned from them."""

    credit: Credit
    update: Update
    skip_reason: str = ""
    """Reason why the whole step was skipped, if it was."""
    version: int = 0
    """Number of training steps that the parameters had taken when they learned."""

    @property
    def skipped(self) -> dict[str, str]:
        """Reasons why nothing was learned: in the whole `step`, or by one policy."""
        if self.skip_reason:
            return {WHOLE_STEP: self.skip_reason}
        reasons = {f"policy/{name}": reason for name, reason in self.update.skipped.items()}
        if reasons and not self.update.losses:
            reasons[WHOLE_STEP] = next(iter(reasons.values()))
        return reasons

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of skipped parts and failures, in plain words."""
        if self.skip_reason:
            return (f"the step was skipped: {self.skip_reason}", *self.sampler.warnings)
        credited = [group.task for group in self.credit.groups]
        lost = lost_group_warnings(self.groups, credited)
        feedback = warn_failed_feedback(self.episodes)
        no_weights = no_weight_warnings(self.credit)
        learned = (*self.update.skipped.values(), *self.update.warnings)
        return (*lost, *feedback, *no_weights, *learned, *self.sampler.warnings)


def step_metrics(data: StepData, policies: Policies, spec: TrainerSpec) -> dict[str, float]:
    """Return the metrics of one step, except those that do not apply to it.

    Means are over complete episodes that ran to their end. Spreads are population standard
    deviations, returns are undiscounted joint returns. Log-probabilities and entropies are in nats
    per token. If a solved task is an absorbing state, a skipped turn has the last
    reward.
    """
    episodes, ended = data.episodes, finished_episodes(data.episodes)
    metrics = dict(_return_metrics(data.groups, ended))
    metrics.update(_part_metrics(ended))
    metrics.update(_group_metrics(data, episodes))
    for policy in policies:
        for agent in policy.agents:
            metrics.update(_agent_metrics(agent, episodes, data.update.sums.get(agent, {})))
        for pattern, values in (
            (names.LOSS, data.update.losses),
            (names.GRADIENT_NORM, data.update.gradient_norms),
        ):
            if policy.name in values:
                metrics[names.fill_pattern(pattern, policy.name)] = values[policy.name]
    metrics.update(_own_return_metrics(data.credit.groups, spec))
    metrics.update(_mismatch_metrics(data.update))
    metrics.update(_staleness_metrics(data, policies.agents))
    metrics.update(_cost_metrics(data, policies))
    metrics.update(
        {names.fill_pattern(names.SERVER, k): v for k, v in data.sampler.metrics.items()}
    )
    metrics[names.LEARNING_RATE] = data.update.rate
    metrics.update(data.credit.measures)
    return metrics


def _return_metrics(
    groups: Sequence[Sequence[Episode]], ended: Sequence[Episode]
) -> Iterator[tuple[str, float]]:
    returns = [e.joint_return for e in ended if e.joint_return is not None]
    if not returns:
        return
    yield names.RETURN_MEAN, mean(returns)
    yield names.RETURN_MAXIMUM, max(e.largest_return or 0.0 for e in ended)
    yield names.RETURN_STD, deviation(returns)
    played = filter(None, map(finished_episodes, groups))
    within = [[e.joint_return or 0.0 for e in group] for group in played]
    yield names.RETURN_SPREAD, mean([deviation(group) for group in within])
    for turn in range(max(len(e.rewards) for e in ended)):
        rewards = [e.rewards[turn] for e in ended if len(e.rewards) > turn]
        yield names.reward_of_turn(turn + 1), mean(rewards)
    if known := solved_flags(ended):
        yield names.SOLVED, mean(known)
    for turn, share in solved_by_turn(ended):
        yield names.fill_pattern(names.SOLVED_AFTER_TURN, turn), share


def _part_metrics(ended: Sequence[Episode]) -> Iterator[tuple[str, float]]:
    """Yield the last turn's parts: points, values of parts without points, and measures."""
    scores = [e.score for e in ended if e.score]
    values_of: dict[str, list[float]] = {}
    for part in chain.from_iterable(score.parts for score in scores):
        if part.applies:
            pattern, amount = (
                (names.POINTS, part.points) if part.weight else (names.VALUE, part.value)
            )
            values_of.setdefault(names.fill_pattern(pattern, part.name), []).append(amount)
    for measure in MEASURES:
        values = [value for score in scores if (value := measure.read(score)) is not None]
        if measure.metric and values:
            values_of[measure.metric] = values
    for name, values in values_of.items():
        yield name, mean(values)


def _group_metrics(data: StepData, episodes: Sequence[Episode]) -> Iterator[tuple[str, float]]:
    dead = [is_dead(weights) for weights in data.credit.weights]
    if dead:
        yield names.DEAD_GROUPS, mean(dead)
    lost = len(data.groups) - len(data.credit.groups)
    yield names.SKIPPED_GROUPS, lost / len(data.groups) if data.groups else 0.0
    for what in data.skipped:
        yield names.fill_pattern(names.SKIPPED, what), 1
    failures = Counter(e.failure.type for e in episodes if e.failure)
    failures.update(failure.type for failure in data.credit.failures)
    yield names.EPISODES, len(episodes)
    yield names.DROPPED, mean([e.failure is not None for e in episodes])
    for name, count in failures.items():
        yield names.fill_pattern(names.FAILURES, name), count
    yield names.FLAGGED, mean([bool(e.score and e.score.flags) for e in episodes])


def _agent_metrics(
    agent: str, episodes: Sequence[Episode], sums: TokenSums
) -> Iterator[tuple[str, float]]:
    metric_name = partial(names.fill_pattern, name=agent)
    played = [*{id(turn): turn for e in episodes for turn in e.turns}.values()]  # trees share them
    decisions = [d for turn in played for d in turn.decisions if d.agent == agent]
    actions = [d.action for d in decisions if not d.action.failure]
    if actions:
        logprobs = [value for action in actions for value in action.logprobs]
        yield metric_name(names.LENGTH), mean([len(action.token_ids) for action in actions])
        yield metric_name(names.TRUNCATED), mean([action.is_truncated for action in actions])
        if logprobs:
            # The sampled tokens give an unbiased estimate at no cost.
            yield metric_name(names.ENTROPY), -mean(logprobs)
    turns = [turn for turn in played if agent in turn.artifacts]
    if turns:
        yield metric_name(names.EMPTY), mean([not turn.artifacts[agent].strip() for turn in turns])
    for metric, total in sums.items():
        if metric not in (TOKENS, KL_TOKENS):
            yield metric_name(metric), total / sums[KL_TOKENS if metric == names.KL else TOKENS]


def _own_return_metrics(groups: Sequence[Group], spec: TrainerSpec) -> Iterator[tuple[str, float]]:
    """Yield each agent's mean return, with local parts, or if a game pays them unequally."""
    rows = [row for group in groups for (_, turn), row in group.returns.items() if turn == 0]
    if spec.local_parts or any(len(set(row.values())) > 1 for row in rows):
        for agent in rows[0] if rows else ():
            name = names.fill_pattern(names.AGENT_RETURN, agent)
            yield name, mean([row[agent] for row in rows])


def _mismatch_metrics(update: Update) -> Iterator[tuple[str, float]]:
    every = list(update.sums.values())
    if tokens := sum(sums[TOKENS] for sums in every):
        yield names.MISMATCH, fsum(sums[names.AGENT_MISMATCH] for sums in every) / tokens


def _staleness_metrics(data: StepData, agents: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield how many steps the sampling policies were behind, if responses record it."""
    if data.skip_reason:
        return
    decisions = [d for e in data.episodes for agent in agents for d in e.decisions(agent)]
    actions = {id(d.action): d.action for d in decisions}.values()  # trees share them
    versions = [action.version for action in actions if action.version is not None]
    if versions:
        yield names.STALENESS, data.version - mean(versions)


def _cost_metrics(data: StepData, policies: Policies) -> Iterator[tuple[str, float]]:
    seconds, tokens = data.times["step"], data.new_tokens
    yield names.TOKENS, tokens
    yield names.TOKENS_PER_SECOND, tokens / seconds
    yield names.UPDATE_TOKENS, data.update.computed_tokens
    yield names.SECONDS, seconds
    for name, spent in data.times.items():
        if name != "step":
            yield names.fill_pattern(names.TIME, name), spent / seconds
    costs = [action.usage.cost for action in data.actions if action.usage.cost is not None]
    if costs:
        yield names.COST, fsum(costs)
    yield names.MEMORY, peak_memory_gb(policies)


def peak_memory_gb(policies: Policies) -> float:
    """Return the peak memory so far: the GPU's if there is one, otherwise the process's."""
    import torch

    devices = {policy.device for policy in policies if policy.device.type == "cuda"}
    if devices:
        return sum(torch.cuda.max_memory_allocated(device) for device in devices) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
