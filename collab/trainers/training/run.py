"""A training run: steps, evaluations, checkpoints, and resuming after a crash."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from collab.errors import CollabError, TrainingError, convert_error
from collab.models.open import ModelPool
from collab.models.store import StoreProgress
from collab.recipe import Recipe
from collab.records import failure_of
from collab.runs import metric_names as names
from collab.runs.about import write_about
from collab.runs.atomic import Lock
from collab.runs.checkpoint import CheckpointState
from collab.runs.layout import CHECKPOINTS
from collab.runs.metrics import STEP_FINISHED
from collab.runtime.notes import make_run_started, start_entries, tool_forms
from collab.telemetry import operation
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.policy import Policies
from collab.trainers.learner.ranks import ALONE, Ranks
from collab.trainers.learner.update import OutOfMemory
from collab.trainers.ranks.orders import Begin, open_learner
from collab.trainers.training.check import check_phase_prompts, check_recipe, describe_trainer
from collab.trainers.training.checkpoints import Checkpoints, seed_random_states
from collab.trainers.training.data import choose_tasks
from collab.trainers.training.evaluations import Evaluations
from collab.trainers.training.events import (
    CheckpointSaved,
    StepFinished,
    StepPart,
    TrainingEvent,
    TrainingFinished,
    TrainingProgress,
    mean_return,
)
from collab.trainers.training.folder import TrainingFolder
from collab.trainers.training.metrics import step_metrics
from collab.trainers.training.plan.plan import make_plan, with_sleeping_engines
from collab.trainers.training.recorded import RecordedStepper
from collab.trainers.training.skipping import StepHistory
from collab.trainers.training.step import SampledStepper, Stepper
from collab.trainers.training.trackers import TrackedRun, Trackers

EmitTraining = Callable[[TrainingEvent], None]


class TrainingRun:
    """Trains the team of `recipe` and records the run in the folder `out`.

    With `resume`, the run continues from the newest checkpoint in `out`, or from the start if there
    is none. Work after that checkpoint is repeated. On a CPU, the results are bitwise identical.

    Raises:
        RecipeError, TaskError, RecordError: before any work is done.
    """

    _stepper: Stepper
    _policies: Policies
    _folder: TrainingFolder
    """Set by `run`."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        *,
        resume: bool = False,
        emit: EmitTraining | None = None,
        loading: StoreProgress | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self.out, self._resume, self._ranks, self._loading = out, resume, ranks, loading
        self._earlier_recipe: Recipe | None = None
        """Earlier recipe of a run that continues."""
        self.spec = check_recipe(recipe)
        self.tasks = choose_tasks(recipe, self.spec)
        self.recipe = recipe = recipe.model_copy(update={"task": self.tasks.suite})
        warnings = check_phase_prompts(recipe, self.spec, self.tasks).warnings
        self.total_steps = self.tasks.total_steps(self.spec)
        self._history = StepHistory(recipe, self.total_steps)
        self._emit = emit or (lambda _: None)
        self._pool = ModelPool(progress=loading)
        """Models of feedback, with the agents' hosted ones: a cost limit is for the whole run."""
        held_out = self.tasks.held_out
        self.evaluations = Evaluations(recipe, self.spec.evaluation, held_out, self._pool)
        self._checkpoints = Checkpoints(out / CHECKPOINTS, self.spec.keep_checkpoints)
        self._saved_step = -1
        self._trackers = Trackers(self.spec.report_episodes)
        models = {name: recipe.model_of(name).name for name in recipe.team.agents}
        samples = self.spec.group_size
        started = make_run_started(recipe, models, self.tasks.training, samples, out)
        trainer = describe_trainer(recipe, self.spec, self.tasks)
        self._started_event = started.model_copy(update={"trainer": trainer, "warnings": warnings})
        self._began = time.perf_counter()

    async def run(self) -> dict[str, Any]:
        """Train to the end, and return the summary stored in `run.json`.

        It opens everything that the run needs before it writes anything, so a run that cannot
        continue stays unchanged.

        Raises:
            TrainingError: training cannot continue. The message says why. The folder holds
                everything up to the last checkpoint.
            RecipeError, ModelUnavailable, ModelError, RecordError: as they occur.
        """
        planned = {"collab.steps": self.total_steps}
        with (
            operation(f"train {self.recipe.team.name}", planned) as span,
            span.as_current(),
            Lock(self.out),
        ):
            return await self._run()

    async def _run(self) -> dict[str, Any]:
        about = self._check_folder()
        self._emit(self._started_event)
        learner = await asyncio.to_thread(self._open_learner)
        for name, model in learner.policies.models.items():
            self._pool.share(self.recipe.model_of(name), model)
        parts = self.recipe, self.spec, self.tasks, learner
        is_recorded = self.spec.learn_from is not None
        stepper = RecordedStepper(*parts) if is_recorded else SampledStepper(*parts, self._pool)
        self._stepper, self._policies = stepper, learner.policies
        try:
            await stepper.open()
            checkpoint = None
            if self._resume:
                checkpoint = self._checkpoints.restore(learner, stepper.algorithm)
            await stepper.check()
            self._began = time.perf_counter()
            summary = await self._record(about, checkpoint)
        finally:
            await stepper.aclose()
            await self._pool.aclose()
            await learner.policies.aclose()
        self._emit(TrainingFinished(run=about["run"], status="done", summary=summary))
        return summary

    def _open_learner(self) -> Learner:
        recipe = with_sleeping_engines(self.recipe, self.spec, self._ranks.world)
        begin = Begin(recipe, self.spec, self.total_steps, self.out)
        return open_learner(begin, self._ranks, self._loading)

    async def _record(
        self, about: dict[str, Any], checkpoint: CheckpointState | None
    ) -> dict[str, Any]:
        """Train in the run's folder, record it in `run.json`, and return the final summary."""
        about.update(self._stepper.learner.about())
        if tools := tool_forms(self.recipe):
            about["tools"] = tools
        step = checkpoint.step if checkpoint else 0
        if self._earlier_recipe is None:
            self._folder = TrainingFolder.create(self.out, self.recipe, about)
        else:
            before = self._earlier_recipe
            self._folder = TrainingFolder.reopen(self.out, before, self.recipe, about, step)
        status = "interrupted"
        try:
            config = self.recipe.model_dump(mode="json")
            run = TrackedRun(str(about["run"]), str(about["started"]), self.out, config, step)
            self._trackers.open(self.spec.report_to, run)
            self._start(checkpoint)
            await self._take_steps()
            status = "done"
        except OutOfMemory as error:
            status = "failed"
            raise TrainingError(f"{error}\n{make_plan(self.recipe).text()}") from error
        except Exception as error:
            status = "failed"
            about["failure"] = failure_of(convert_error(error, CollabError)).model_dump()
            raise
        finally:
            self._trackers.close()
            summary = self._summary()
            with closing(self._folder):
                write_about(self.out, {**about, "status": status, "summary": summary})
        return summary

    def _start(self, state: CheckpointState | None) -> None:
        """Save a first checkpoint, or restore folder, history and evaluations from a `state`."""
        if state is None:
            self._folder.cut({})
            seed_random_states(self.recipe.seed)
            self._save()
            return
        self._folder.cut(state.sizes)
        self._folder.save_team(self.recipe, self._policies)  # the run may have ended in between
        rows = self._folder.rows()
        self._history.restore(state.step, rows)
        self._saved_step = self._policies.version = self.step
        self.evaluations.restore(rows)

    async def _take_steps(self) -> None:
        """Train to the end of the run. However that ends, its last whole step is saved."""
        if await self._evaluate_when_due() and self.step > 0:
            self._save_when_due()
        try:
            while not self._history.is_over():
                await self._take_step()
                self._save_when_due()
        finally:
            if not self._stepper.update_interrupted and self._saved_step < self.step:
                self._save()

    async def _take_step(self) -> None:
        history, stepper, step = self._history, self._stepper, self.step
        with operation("training_step", {"collab.step": step + 1}) as span, span.as_current():
            began = time.perf_counter()
            report = partial(self._report, step + 1)
            played = await stepper.run_episodes(step, report)
            self._folder.append_groups(played.groups, first=step * self.spec.tasks_per_step)
            if not history.is_over(1, played.new_tokens):
                stepper.sample_ahead(step + 1, partial(self._report, step + 2))
            data = await stepper.learn(step, played, report)
            data.times["step"] = time.perf_counter() - began
            metrics = step_metrics(data, self._policies, self.spec)
            warnings = (*data.warnings, *history.add(metrics))
            self._folder.append_metrics({"type": STEP_FINISHED, "step": self.step, **metrics})
            self._trackers.log(metrics, self.step)
            self._trackers.show(played.groups, self.step)
            self._emit(
                StepFinished(
                    step=self.step,
                    steps=history.total_steps,
                    metrics=metrics,
                    warnings=warnings,
                    tokens=history.tokens,
                    of_tokens=self.spec.tokens,
                )
            )
            span.add_score("return", metrics.get(names.RETURN_MEAN))
            history.check_skipped(data.skipped)
        await self._evaluate_when_due()

    async def _evaluate_when_due(self) -> bool:
        tokens, last = self._history.tokens, self._history.is_over()
        if not self.evaluations.due(self.step, tokens, last=last):
            return False
        report = partial(self._report, self.step)
        evaluation = await self.evaluations.evaluate(
            self.step, tokens, self._policies, self._folder, report
        )
        if evaluation.sampled:
            self._trackers.log({"held_out/return": mean_return(evaluation.sampled)}, self.step)
        self._emit(evaluation)
        return True

    def _save_when_due(self) -> None:
        best_now = self.evaluations.best_step == self.step
        if self._history.is_over() or best_now or self.step % self.spec.checkpoint_every == 0:
            self._save()

    def _save(self) -> None:
        state = {"best_step": self.evaluations.best_step, "sizes": self._folder.sync()}
        learner, algorithm = self._stepper.learner, self._stepper.algorithm
        path = self._checkpoints.save(self.step, learner, algorithm, state)
        self._folder.save_team(self.recipe, self._policies)
        self._saved_step = self.step
        self._emit(CheckpointSaved(step=self.step, path=str(path)))

    def _report(self, step: int, phase: StepPart, done: int, total: int) -> None:
        """Report the progress of work on `step`, counted from 1."""
        self._emit(TrainingProgress(step=step, phase=phase, done=done, total=total))

    def _check_folder(self) -> dict[str, Any]:
        """Check the folder, and make the first entries of `run.json` without writing anything."""
        opening = self._started_event.model_dump(mode="json", exclude={"type"})
        if self._resume:
            self._earlier_recipe, about = TrainingFolder.check(self.out, self.recipe)
            about |= {key: opening[key] for key in ("trainer", "warnings")}
            self._checkpoints.check(self.out, self.total_steps)
            for key in ("summary", "failure", "tools", "ranks"):
                about.pop(key, None)
        else:
            TrainingFolder.check_is_free(self.out)
            about = opening | start_entries(self.recipe)
        return {**about, **self._limits(), **self._ranks.about(), "status": "running"}

    @property
    def step(self) -> int:
        """Number of finished steps."""
        return self._history.step

    def _limits(self) -> dict[str, int]:
        """Return the limits for `run.json`, without a number of steps that is only a bound."""
        tokens = {} if self.spec.tokens is None else {"tokens": self.spec.tokens}
        bounded = tokens and self.spec.steps is None
        return tokens if bounded else {**tokens, "steps": self.total_steps}

    def _summary(self) -> dict[str, Any]:
        return {
            "steps": self.step,
            "of": self._limits().get("steps"),
            "tokens": self._history.tokens,
            "seconds": round(time.perf_counter() - self._began, 3),
            "unlearned": self._history.unlearned,
            **self.evaluations.summary(),
        }
