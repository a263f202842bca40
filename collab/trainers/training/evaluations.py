"""The evaluations of a training run: their schedule, their results, and the best step."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from math import sqrt
from operator import attrgetter
from typing import Any

from collab.models.open import ModelPool
from collab.recipe import EvaluationSpec, Recipe
from collab.records import Episode, Problem
from collab.records.episode import solved_flags
from collab.runs.metrics import EVALUATION_FINISHED, MetricsRow, last_rows
from collab.runtime import Event, Session
from collab.runtime.events import EpisodeFinished
from collab.seeds import derive_seed
from collab.stats import deviation, group_by, mean
from collab.telemetry import operation
from collab.trainers.learner.policy import Policies
from collab.trainers.training.events import (
    Evaluation,
    Gain,
    HeldOut,
    Mode,
    TaskResult,
    largest_return,
    mean_return,
)
from collab.trainers.training.folder import TrainingFolder
from collab.trainers.training.skipping import describe_failures
from collab.trainers.training.step import OnProgress

FALL_STANDARD_ERRORS = 2.0
"""Number of standard errors by which the held-out return must fall for a warning."""


def gain_between(before: Mapping[str, TaskResult], after: Mapping[str, TaskResult]) -> Gain | None:
    """Return the gain from `before` to `after` on the tasks of both, or None if there are none."""
    tasks = sorted(set(before) & set(after))
    if not tasks:
        return None
    gains = [after[task].joint_return - before[task].joint_return for task in tasks]
    return Gain(
        before=mean([before[task].joint_return for task in tasks]),
        after=mean([after[task].joint_return for task in tasks]),
        gain=mean(gains),
        error=deviation(gains) / sqrt(len(gains) - 1) if len(gains) > 1 else None,
        solved_before=_mean_solved(before, tasks),
        solved_after=_mean_solved(after, tasks),
        tasks=len(tasks),
        maximum=largest_return({task: after[task] for task in tasks}),
    )


def fall_warning(best: Evaluation, now: Evaluation) -> str | None:
    """Return a warning if the sampled return lies below the best by more than two standard errors.

    Adapters of roles reach a peak and can then fall (arXiv 2605.24202).
    """
    gain = gain_between(best.sampled, now.sampled)
    if gain is None or gain.error is None or gain.gain >= -FALL_STANDARD_ERRORS * gain.error:
        return None
    return (
        f"the held-out return fell by {-gain.gain:.2f} ± {gain.error:.2f} from its best, of step"
        f" {best.step}: use that step's checkpoint, which is kept, and lower learning_rate or set"
        " kl_coef"
    )


def _results_by_task(episodes: Sequence[Episode]) -> dict[str, TaskResult]:
    scored = (episode for episode in episodes if episode.joint_return is not None)
    groups = group_by(scored, attrgetter("task"))
    return {task: _task_result(group) for task, group in groups.items()}


def _task_result(group: Sequence[Episode]) -> TaskResult:
    known = solved_flags(group)
    return TaskResult(
        joint_return=mean([e.joint_return or 0.0 for e in group]),
        solved=mean(known) if known else None,
        maximum=max(
            (e.largest_return for e in group if e.largest_return is not None), default=None
        ),
    )


def _mean_solved(results: Mapping[str, TaskResult], tasks: Sequence[str]) -> float | None:
    known = [s for task in tasks if (s := results[task].solved) is not None]
    return mean(known) if known else None


class Evaluations:
    """Runs the held-out tasks before training, after it and in between."""

    def __init__(
        self,
        recipe: Recipe,
        spec: EvaluationSpec | None,
        problems: Sequence[Problem],
        pool: ModelPool,
    ) -> None:
        self._recipe, self._spec, self._problems, self._pool = recipe, spec, problems, pool
        self._by_step: dict[int, Evaluation] = {}

    @property
    def best_step(self) -> int | None:
        """Step with the highest sampled return, or None before the first evaluation."""
        means = {n: mean_return(e.sampled) for n, e in self._by_step.items() if e.sampled}
        return max(means, key=means.__getitem__, default=None)

    def restore(self, rows: Sequence[MetricsRow]) -> None:
        """Restore the evaluations among the rows of `metrics.jsonl`."""
        evaluations = map(Evaluation.model_validate, last_rows(rows, EVALUATION_FINISHED))
        self._by_step = {evaluation.step: evaluation for evaluation in evaluations}

    def due(self, step: int, tokens: int, *, last: bool) -> bool:
        """Return True if an evaluation is due after `step` steps and `tokens` generated tokens.

        After an interruption, a missed evaluation is due.
        """
        if self._spec is None or step in self._by_step:
            return False
        if not self._by_step or last:
            return True
        every, interval = self._spec.every, self._spec.every_tokens
        before = self._by_step[max(self._by_step)].tokens or 0
        passed_mark = interval is not None and tokens // interval > before // interval
        return passed_mark or (every is not None and step % every == 0)

    async def evaluate(
        self, step: int, tokens: int, policies: Policies, folder: TrainingFolder, report: OnProgress
    ) -> Evaluation:
        """Evaluate the current team after `step` steps and `tokens` generated tokens, and return
        the results.

        The episodes and the results are written to `folder`. Every evaluation of a run uses the
        same seed.
        """
        spec, seed = self._spec, derive_seed(self._recipe.seed, "evaluation")
        assert spec is not None, "an evaluation is due"
        done, total = 0, len(self._problems) * (spec.samples + spec.greedy)

        def watch(mode: Mode, event: Event) -> None:
            nonlocal done
            if isinstance(event, EpisodeFinished):
                done += 1
                folder.append_held_out(HeldOut(step=step, mode=mode, episode=event.episode))
                report("evaluation", done, total)

        async def run(recipe: Recipe, samples: int, mode: Mode) -> list[Episode]:
            async with Session(recipe, models=policies.models, pool=self._pool) as session:
                return await session.rollout(
                    self._problems, samples=samples, seed=seed, watch=partial(watch, mode)
                )

        report("evaluation", 0, total)
        await policies.publish()
        sizes, began = folder.sizes(), time.perf_counter()
        try:
            with operation("evaluation", {"collab.step": step}) as span, span.as_current():
                team = policies.recipe_with_adapters(self._recipe)
                sampled = await run(team, spec.samples, "sampled")
                greedy_team = team.greedy(team.team.trained)
                greedy = await run(greedy_team, 1, "greedy") if spec.greedy else []
                played = [*sampled, *greedy]
                failed = [episode for episode in played if episode.failure]
                evaluation = Evaluation(
                    step=step,
                    tokens=tokens,
                    sampled=_results_by_task(sampled),
                    greedy=_results_by_task(greedy),
                    failed=len(failed),
                    seconds=time.perf_counter() - began,
                )
                if evaluation.sampled:
                    span.add_score("return", mean_return(evaluation.sampled))
        except BaseException:
            # Part of an evaluation is useless, so all of it is run again.
            folder.cut(sizes)
            raise
        best = None if self.best_step is None else self._by_step[self.best_step]
        warnings = [f"held out: {describe_failures(failed, len(played))}"] if failed else []
        if best is not None and (warning := fall_warning(best, evaluation)):
            warnings.append(warning)
        evaluation = evaluation.model_copy(update={"warnings": tuple(warnings)})
        folder.append_metrics(evaluation.model_dump(mode="json"))
        self._by_step[step] = evaluation
        return evaluation

    def summary(self) -> dict[str, Any]:
        """Return the best step, and the gains from first to last evaluation, for `run.json`."""
        gains = {}
        if len(self._by_step) > 1:
            first, last = (self._by_step[end(self._by_step)] for end in (min, max))
            gains = {
                "sampled": gain_between(first.sampled, last.sampled),
                "greedy": gain_between(first.greedy, last.greedy),
            }
        return {
            "best_step": self.best_step,
            "gains": {name: gain.model_dump() for name, gain in gains.items() if gain is not None},
        }
