"""The numbers of teams: a value per metric and task, means with intervals, and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, chain
from math import comb, fsum
from operator import itemgetter
from typing import Any

from collab.evaluation.intervals import (
    BRACKETS_CAPTION,
    PAIRED_CAPTION,
    estimate_change,
    estimate_mean,
)
from collab.evaluation.results import Difference, Estimate, Results, Speed, TeamResult
from collab.evaluation.seeds import SEEDS_CAPTION
from collab.evaluation.teams import EvaluatedTeam
from collab.recipe.reward import RewardSpec
from collab.records import Episode, Score
from collab.records.episode import solved_by_turn
from collab.rewards.declared import best_of_readers
from collab.rewards.measures import level_shares
from collab.runs import metric_names as names
from collab.runtime.summary import usage_by_agent
from collab.stats import group_by, mean

Groups = Mapping[str, Sequence[Episode]]
"""Episodes by task."""

ValuesByMetric = dict[str, dict[str, float]]
"""Values by metric, then by task."""


def task_values(
    groups: Groups, ks: Sequence[int], reward: RewardSpec | None = None
) -> ValuesByMetric:
    """Return the metrics of each task with a finished episode, from the episodes by task.

    A metric for k tries needs k finished episodes. `reward` declares more values for which the best
    of several tries counts.
    """
    best = best_of_readers(reward)
    turns = max((len(e.solved_by_turn) for group in groups.values() for e in group), default=0)
    values: ValuesByMetric = {}
    for task, group in groups.items():
        finished = [e for e in group if e.joint_return is not None]
        for metric, value in _task_metrics(finished, ks, best, turns) if finished else ():
            values.setdefault(metric, {})[task] = value
    return values


def _task_metrics(
    episodes: Sequence[Episode],
    ks: Sequence[int],
    best: Mapping[str, Callable[[Score], float | None]],
    turns: int,
) -> Iterator[tuple[str, float]]:
    scores = [episode.score for episode in episodes if episode.score]
    solved = [score.solved for score in scores if score.solved is not None]
    if solved:
        yield names.SOLVED, mean(solved)
    for k in ks:
        if k <= len(solved):
            yield names.fill_pattern(names.PASS_AT, k), pass_at_k(len(solved), sum(solved), k)
    for turn, share in solved_by_turn(episodes, turns):
        yield names.fill_pattern(names.SOLVED_AFTER_TURN, turn), share
    for name, read in best.items():
        known = [value for score in scores if (value := read(score)) is not None]
        for k in ks:
            if k <= len(known):
                yield names.best_of_metric(name, k), best_of_k(known, k)
    yield names.RETURN, mean([e.joint_return or 0.0 for e in episodes])
    yield (
        names.RETURN_SHARE,
        mean([(e.joint_return or 0.0) / (e.largest_return or 1.0) for e in episodes]),
    )
    yield names.LAST_REWARD_SHARE, mean([s.reward / (s.maximum or 1.0) for s in scores])
    yield names.TOKENS_IN_SEQUENCE, mean([float(e.tokens_in_sequence) for e in episodes])
    for level, shares in _collect_values(level_shares(score).items() for score in scores).items():
        yield names.fill_pattern(names.LEVEL, level), mean(shares)
    parts = _collect_values(((p.name, p.value) for p in s.parts if p.applies) for s in scores)
    for part, values in parts.items():
        yield names.fill_pattern(names.VALUE, part), mean(values)


def _collect_values(rows: Iterable[Iterable[tuple[str, float]]]) -> dict[str, list[float]]:
    named = group_by(chain.from_iterable(rows), itemgetter(0))
    return {name: [value for _, value in pairs] for name, pairs in named.items()}


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the probability that at least one of `k` tries passes, given that `c` of `n` passed.

    The probability is 1 - C(n-c, k) / C(n, k). Counts are whole numbers of any size, so nothing is
    rounded before the division. `k` is from 1 to `n`.
    """
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def best_of_k(values: Sequence[float], k: int) -> float:
    """Return the mean, over all subsets of `k`, of the subset's largest value.

    The i-th smallest of n is the largest of C(i-1, k-1) subsets.
    """
    subsets = comb(len(values), k)
    return fsum(value * (comb(i, k - 1) / subsets) for i, value in enumerate(sorted(values)))


def team_result(
    evaluated: EvaluatedTeam,
    groups: Groups,
    values: ValuesByMetric,
    *,
    folder: str | None,
    models: Mapping[str, str],
) -> TeamResult:
    """Return the results of one team, with its metrics as means over tasks."""
    episodes = list(chain.from_iterable(groups.values()))
    scores = [e.score for e in episodes if e.score]
    team = evaluated.recipe.team
    maximum = max((score.maximum for score in scores), default=None)
    game_maximum = maximum if evaluated.recipe.environment else None
    largest = (maximum or 0.0) * (1 if game_maximum is not None else team.turns)
    return TeamResult(
        label=evaluated.label,
        folder=folder,
        team=team.name,
        protocol=str(team.protocol),
        turns=team.turns,
        models=dict(models),
        identity=evaluated.identity,
        planned=len(evaluated.problems) * evaluated.recipe.samples,
        episodes=len(episodes),
        failed=sum(e.failure is not None for e in episodes),
        failures=dict(Counter(e.failure.type for e in episodes if e.failure)),
        failure=next((e.failure for e in episodes if e.failure), None),
        maximum=maximum,
        most=game_maximum,
        metrics=estimates_of(values, largest),
        speed=speed_of(episodes),
        concurrency=_most_at_once(episodes),
        agents=_usage_that_counts(episodes),
    )


def _usage_that_counts(episodes: Sequence[Episode]) -> dict[str, dict[str, Any]]:
    """Return the responses and tokens of finished episodes, and the cost of all, by agent."""
    finished = usage_by_agent([e for e in episodes if e.failure is None])
    none = {"responses": 0, "prompt_tokens": 0, "new_tokens": 0}
    return {
        name: {**finished.get(name, none), "cost": used["cost"]}
        for name, used in usage_by_agent(episodes).items()
    }


def difference(
    first: TeamResult, base: ValuesByMetric, other: TeamResult, values: ValuesByMetric
) -> Difference:
    """Return `other` - `first` for each metric, paired on the tasks that both have."""
    largest = max(team.largest_return or 0.0 for team in (first, other))
    metrics = paired_differences(base, values, largest)
    return Difference(team=other.label, baseline=first.label, metrics=metrics)


def paired_differences(
    base: ValuesByMetric, values: ValuesByMetric, largest: float
) -> dict[str, Estimate]:
    """Return `values` - `base` by metric, paired by task. `largest` is the largest return."""
    metrics = {}
    for name in (name for name in values if name in base):
        shared = [task for task in values[name] if task in base[name]]
        if shared:
            changes = [values[name][task] - base[name][task] for task in shared]
            seen = [*values[name].values(), *base[name].values()]
            span = max(_largest_value(name, largest), *seen) - min(0.0, *seen)
            metrics[name] = estimate_change(changes, span)
    return metrics


def speed_of(episodes: Sequence[Episode]) -> Speed | None:
    """Return tokens and joint responses per second in which an episode was in progress."""
    seconds = _busy_seconds(episodes)
    responses = sum(len(episode.turns) for episode in episodes)
    if not seconds or not responses:
        return None
    tokens = sum(d.action.new_tokens for e in episodes for d in e.decisions())
    return Speed(
        seconds=seconds,
        tokens_per_second=tokens / seconds,
        seconds_per_response=seconds / responses,
    )


def _busy_seconds(episodes: Iterable[Episode]) -> float:
    """Return the seconds in which an episode was in progress, without pauses between calls."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(_spans(episodes)):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _most_at_once(episodes: Iterable[Episode]) -> int:
    """Return the largest number of episodes that were in progress at the same time.

    The recipe's setting may have changed since. Overlaps within the precision of `started` do not
    count.
    """
    spans = [(begin, max(begin, end - 0.002)) for begin, end in _spans(episodes)]
    changes = sorted([*((end, -1) for _, end in spans), *((begin, 1) for begin, _ in spans)])
    return max([1, *accumulate(change for _, change in changes)])


def _spans(episodes: Iterable[Episode]) -> Iterator[tuple[float, float]]:
    """Yield the start and the end of each episode, in seconds."""
    for episode in episodes:
        if episode.started:
            begin = datetime.fromisoformat(episode.started).timestamp()
            yield begin, begin + episode.seconds


def estimate_of(name: str, values: Sequence[float], largest: float) -> Estimate:
    """Return a metric's mean over tasks with its interval. `largest` is the largest return.

    Twice the largest count stands for its unknown bound.
    """
    most = 2 * max(values) if names.is_count(name) else _largest_value(name, largest)
    return estimate_mean(values, most)


def estimates_of(values: ValuesByMetric, largest: float) -> dict[str, Estimate]:
    """Return the mean of each metric over tasks, with its interval. See `estimate_of`."""
    return {name: estimate_of(name, [*v.values()], largest) for name, v in values.items()}


def explain_results(results: Results) -> str:
    """Return the note below the tables. It explains intervals, tokens, costs and speed."""
    concurrency = ", ".join(map(str, sorted({team.concurrency for team in results.teams})))
    agents = [agent for team in results.teams for agent in team.agents.values()]
    costs = ", total cost" if any(agent["cost"] is not None for agent in agents) else ""
    return (
        f"{BRACKETS_CAPTION}; new tokens per episode{costs}; speed with {concurrency}"
        f" episodes at the same time{f'; {PAIRED_CAPTION}' if results.differences else ''}"
        f"{f'; means over seeds have {SEEDS_CAPTION}' if results.over_seeds else ''}"
    )


def _largest_value(name: str, largest: float) -> float:
    return largest if name == names.RETURN else 1.0
