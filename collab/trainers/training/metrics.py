"""What is told of a step, in numbers."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import fsum

from collab.records import Action, Episode, Failure, Turn
from collab.stats import deviation, mean
from collab.trainers.credit.assign import CreditedGroup
from collab.trainers.learner.policy import Policies
from collab.trainers.learner.samples import is_alive
from collab.trainers.learner.update import TokenSums, Update
from collab.trainers.training.rollouts import Played
from collab.trainers.training.skipping import KEY, STEP, lost_groups


@dataclass(frozen=True)
class StepData:
    """All that a step did."""

    played: Sequence[Played]
    credited: Sequence[CreditedGroup]
    failures: Sequence[Failure]
    """Of joint actions that were scored beside the episodes."""
    update: Update
    times: dict[str, float]
    """Seconds by kind of work, and of the whole `step`."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Why nothing was learned: by the whole `step`, or a policy's share of it."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """What the algorithm of credit tells, and `joint_actions/scored`: those that were scored beside
    the played ones; `/seconds`: the wall time of it; `/waited`: the part that was not hidden
    behind sampling."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was skipped, in plain words."""
        if STEP in self.skipped:
            return (f"the step was skipped: {self.skipped[STEP]}",)
        credited = [item.group.episodes[0].task for item in self.credited]
        return (*lost_groups(self.played, credited), *self.skipped.values())


def step_metrics(data: StepData, policies: Policies) -> dict[str, float]:
    """The metrics of one step; what a step cannot tell is left out.

    Means are over whole episodes, spreads are population standard deviations, returns are
    undiscounted joint returns, log-probabilities and entropies are in nats a token. The reward of
    a turn that was not played is the last one, where a solved task is an absorbing state.
    """
    episodes = [episode for played in data.played for episode in played.episodes]
    whole = [episode for played in data.played for episode in played.whole]
    metrics: dict[str, float] = {}
    metrics.update(_returns(data.played, whole))
    metrics.update(_parts(whole))
    metrics.update(_schemes(whole))
    metrics.update(_groups(data, episodes))
    for policy in policies:
        for agent in policy.agents:
            metrics.update(_agent(agent, episodes, data.update.sums.get(agent)))
        for name, values in (
            ("loss", data.update.losses),
            ("gradient_norm", data.update.gradient_norms),
        ):
            if policy.name in values:
                metrics[f"{name}/{policy.name}"] = values[policy.name]
    metrics.update(_mismatch(data.update))
    metrics.update(_costs(data, episodes, policies))
    metrics["learning_rate"] = data.update.rate
    metrics.update(data.measures)
    return metrics


def _returns(played: Sequence[Played], whole: Sequence[Episode]) -> Iterator[tuple[str, float]]:
    returns = [e.joint_return for e in whole if e.joint_return is not None]
    if not returns:
        return
    yield "return/mean", mean(returns)
    yield "return/maximum", max(e.largest_return or 0.0 for e in whole)
    yield "return/std", deviation(returns)
    within = [[e.joint_return or 0.0 for e in group.whole] for group in played if group.whole]
    yield "return/spread_in_group", mean([deviation(group) for group in within])
    for turn in range(max(len(e.rewards) for e in whole)):
        rewards = [e.rewards[turn] for e in whole if len(e.rewards) > turn]
        yield f"reward/turn_{turn + 1}", mean(rewards)
    known = [e.score.solved for e in whole if e.score and e.score.solved is not None]
    if known:
        yield "solved", mean(known)


def _parts(whole: Sequence[Episode]) -> Iterator[tuple[str, float]]:
    """Points of every part of the reward at the last turn, and the share of tests passed."""
    scores = [e.score for e in whole if e.score]
    points: dict[str, list[float]] = {}
    for part in chain.from_iterable(score.parts for score in scores):
        if part.applies:
            points.setdefault(part.name, []).append(part.points)
    for name, values in points.items():
        yield f"part/{name}", mean(values)
    tests = [score.tests.fraction for score in scores if score.tests]
    if tests:
        yield "tests", mean(tests)


def _schemes(whole: Sequence[Episode]) -> Iterator[tuple[str, float]]:
    """The share of each cooperation scheme among the last turns that show one."""
    shown = Counter(e.score.scheme for e in whole if e.score and e.score.scheme)
    for name, count in sorted(shown.items()):
        yield f"scheme/{name}", count / shown.total()


def _groups(data: StepData, episodes: Sequence[Episode]) -> Iterator[tuple[str, float]]:
    dead = [not any(map(is_alive, c.weights.values())) for c in data.credited]
    if dead:
        yield "groups/dead", mean(dead)
    lost = len(data.played) - len(data.credited)
    yield "groups/skipped", lost / len(data.played) if data.played else 0.0
    for what in data.skipped:
        yield f"{KEY}{what}", 1
    failures = Counter(e.failure.type for e in episodes if e.failure)
    failures.update(failure.type for failure in data.failures)
    yield "episodes", len(episodes)
    yield "episodes/dropped", mean([e.failure is not None for e in episodes])
    for name, count in failures.items():
        yield f"failures/{name}", count
    yield "hack_suspects", mean([bool(e.score and e.score.flags) for e in episodes])


def _agent(
    agent: str, episodes: Sequence[Episode], sums: TokenSums | None
) -> Iterator[tuple[str, float]]:
    actions = [d.action for e in episodes for d in e.decisions(agent) if not d.action.failure]
    if actions:
        logprobs = [value for action in actions for value in action.logprobs]
        yield f"agent/{agent}/length", mean([len(action.token_ids) for action in actions])
        yield f"agent/{agent}/truncated", mean([a.finish_reason == "length" for a in actions])
        if logprobs:
            # What was sampled says it without bias, and at no cost.
            yield f"agent/{agent}/entropy", -mean(logprobs)
    turns = [turn for e in episodes for turn in e.turns if agent in turn.artefacts]
    if turns:
        yield f"agent/{agent}/empty", mean([_is_empty(turn, agent) for turn in turns])
    if sums is not None and sums.tokens:
        yield f"agent/{agent}/logprob", sums.logprob / sums.tokens
        yield f"agent/{agent}/mismatch", sums.mismatch / sums.tokens
        yield f"agent/{agent}/mismatch_kl", sums.mismatch_kl / sums.tokens
        yield f"agent/{agent}/importance", sums.importance / sums.tokens
        yield f"agent/{agent}/masked", sums.masked / sums.tokens
        yield f"agent/{agent}/clipped", sums.clipped / sums.tokens
        yield f"agent/{agent}/outside_support", sums.outside_support / sums.tokens
    if sums is not None and sums.kl_tokens:
        yield f"agent/{agent}/kl", sums.kl / sums.kl_tokens


def _is_empty(turn: Turn, agent: str) -> bool:
    return not turn.artefacts[agent].strip()


def _mismatch(update: Update) -> Iterator[tuple[str, float]]:
    tokens = sum(sums.tokens for sums in update.sums.values())
    if tokens:
        yield "mismatch", fsum(sums.mismatch for sums in update.sums.values()) / tokens


def _costs(
    data: StepData, episodes: Sequence[Episode], policies: Policies
) -> Iterator[tuple[str, float]]:
    actions = {id(a): a for e in episodes for a in _actions(e)}.values()
    seconds = data.times["step"]
    tokens = sum(len(a.token_ids) or a.usage.new_tokens for a in actions)
    yield "tokens", tokens
    yield "tokens_per_second", tokens / seconds
    yield "update_tokens", data.update.computed_tokens
    yield "seconds", seconds
    for name, spent in data.times.items():
        if name != "step":
            yield f"time/{name}", spent / seconds
    costs = [a.usage.cost for a in actions if a.usage.cost is not None]
    if costs:
        yield "cost", fsum(costs)
    yield "memory_gb", memory_gb(policies)


def _actions(episode: Episode) -> Iterable[Action]:
    return (d.action for turn in episode.turns for d in turn.decisions)


def memory_gb(policies: Policies) -> float:
    """Most memory that was held so far: the GPU's where there is one, else the process's."""
    import torch

    devices = {policy.device for policy in policies if policy.device.type == "cuda"}
    if devices:
        return sum(torch.cuda.max_memory_allocated(device) for device in devices) / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
