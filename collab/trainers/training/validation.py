"""Playing on held-out tasks, and what training has changed there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import fsum, sqrt

from collab.models import Model
from collab.recipe import EvaluationSpec, Recipe
from collab.records import Episode, Problem
from collab.runtime import Event, Session
from collab.runtime.events import EpisodeFinished
from collab.stats import mean
from collab.trainers.training.events import (
    Evaluation,
    Gain,
    HeldOut,
    Mode,
    TaskResult,
    largest_return,
)
from collab.trainers.training.rollouts import play_samples


async def evaluate(
    recipe: Recipe,
    models: Mapping[str, Model],
    problems: Sequence[Problem],
    spec: EvaluationSpec,
    *,
    step: int,
    tokens: int,
    seed: int,
    keep: Callable[[HeldOut], None],
) -> Evaluation:
    """Play the held-out problems with the team as it is; the same `seed` every time.

    `keep` gets the episodes as they end.
    """

    def watch(mode: Mode, event: Event) -> None:
        if isinstance(event, EpisodeFinished):
            keep(HeldOut(step=step, mode=mode, episode=event.episode))

    started = time.perf_counter()
    async with Session(recipe, models=models) as session:
        seen = partial(watch, "sampled")
        sampled = await play_samples(session, problems, spec.samples, seed, seen)
    greedy: list[Episode] = []
    if spec.greedy:
        async with Session(at_temperature(recipe, 0.0), models=models) as session:
            seen = partial(watch, "greedy")
            greedy = await play_samples(session, problems, 1, seed, seen)
    return Evaluation(
        step=step,
        tokens=tokens,
        sampled=_by_task(sampled),
        greedy=_by_task(greedy),
        failed=sum(episode.failure is not None for episode in [*sampled, *greedy]),
        seconds=time.perf_counter() - started,
    )


def at_temperature(recipe: Recipe, temperature: float) -> Recipe:
    """The recipe with another temperature for those of its agents that are trained."""
    return recipe.with_agents(
        {
            name: {"sampling": spec.sampling.model_copy(update={"temperature": temperature})}
            for name, spec in recipe.team.agents.items()
            if spec.trainable
        }
    )


def compare(before: Mapping[str, TaskResult], after: Mapping[str, TaskResult]) -> Gain | None:
    """What changed on the tasks that both evaluations have; None when there are none."""
    tasks = sorted(set(before) & set(after))
    if not tasks:
        return None
    gains = [after[task].joint_return - before[task].joint_return for task in tasks]
    gain, n = mean(gains), len(tasks)
    variance = fsum((g - gain) ** 2 for g in gains) / (n - 1) if n > 1 else 0.0
    return Gain(
        before=mean([before[task].joint_return for task in tasks]),
        after=mean([after[task].joint_return for task in tasks]),
        gain=gain,
        error=sqrt(variance / n) if n > 1 else None,
        solved_before=_solved(before, tasks),
        solved_after=_solved(after, tasks),
        tasks=n,
        maximum=largest_return({task: after[task] for task in tasks}),
    )


def mean_return(results: Mapping[str, TaskResult]) -> float:
    return mean([result.joint_return for result in results.values()])


def _by_task(episodes: Sequence[Episode]) -> dict[str, TaskResult]:
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.failure is None and episode.joint_return is not None:
            groups.setdefault(episode.task, []).append(episode)
    return {task: _result(group) for task, group in groups.items()}


def _result(group: Sequence[Episode]) -> TaskResult:
    known = [e.score.solved for e in group if e.score and e.score.solved is not None]
    return TaskResult(
        joint_return=mean([e.joint_return or 0.0 for e in group]),
        solved=mean(known) if known else None,
        maximum=max(
            (e.largest_return for e in group if e.largest_return is not None), default=None
        ),
    )


def _solved(results: Mapping[str, TaskResult], tasks: Sequence[str]) -> float | None:
    known = [s for task in tasks if (s := results[task].solved) is not None]
    return mean(known) if known else None
