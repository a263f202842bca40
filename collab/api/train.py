"""Training from Python."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from collab.api.training import Training
from collab.errors import RecipeError
from collab.recipe import Recipe, allow, read_recipe
from collab.recipe.in_python import Overrides, Rewards, Task, TeamLike, split_keywords
from collab.recipe.recipe import SECTIONS
from collab.runs.about import mark_interrupted, new_run_path
from collab.runs.layout import TRAINING
from collab.runtime import Team
from collab.runtime.events import RunStarted
from collab.runtime.waiting import wait_for
from collab.trainers import TrainingRun
from collab.trainers.training.events import Evaluation, StepFinished, TrainingEvent
from collab.trust import Consent

LOGGER = logging.getLogger("collab")
"""Gets the warnings of a training run. Python prints them on stderr unless logging is set up."""

OnStep = Callable[[dict[str, Any]], object]
"""Callback for the metrics of a step, with its number as `step` and the number of steps as
`steps`."""
OnEvent = Callable[[TrainingEvent], object]


def train(
    team: TeamLike | Team | None = None,
    task: Task | None = None,
    rewards: Rewards | None = None,
    *,
    trainer: str | Mapping[str, Any] | None = None,
    hidden: Sequence[str] | None = None,
    on_step: OnStep | None = None,
    on_event: OnEvent | None = None,
    out: str | Path | None = None,
    resume: str | PathLike[str] | None = None,
    settings: Sequence[str] = (),
    trust: Consent = False,
    **more: Any,
) -> Training:
    """Train a team with a joint reward and one adapter per agent. This also works in a notebook.

    Args:
        team: a name, a file, a run's folder, or a `collab.Team`.
        task: a suite, e.g. `"humaneval"`, or rows: a list of dicts, a `datasets.Dataset`.
        rewards: functions `f(context) -> float` from 0 to 1, e.g. `[right, (short, 0.5)]`; they
            replace the task's reward.
        trainer: a name, e.g. `"cross"`, or a mapping; `"magrpo"` if the recipe names none.
        hidden: names of hidden fields; they replace the task's list.
        on_step: called after each step; an exception from it ends the training.
        on_event: called with every event, as it happens.
        out: the run's folder, by default one in `runs/`.
        resume: the folder of a run to continue, instead of `team`, `task`, `trainer`, `hidden` and
            `out`; pass `rewards` again if they are in no file.
        settings: overrides as on the command line, e.g. `["trainer.steps=20"]`.
        trust: True approves the functions of a third-party recipe or folder.
        more: keys of the trainer, the recipe or a section of it, e.g. `steps=20`,
            `learning_rate=1e-4`, `model="smollm2-135m"`, `max_new_tokens=64`, `seed=1`. `tokens`
            limits the training; for an episode, set `budget.tokens`.

    Returns:
        The run: its folder, metrics, evaluations, and the trained team.

    Raises:
        RecipeError, TaskError, ModelUnavailable, RecordError: an argument is wrong or a resource is
            missing. The error is raised before any work.
        TrainingError: training cannot continue. The folder has everything up to the last
            checkpoint.
    """
    work = atrain(
        team,
        task,
        rewards,
        trainer=trainer,
        hidden=hidden,
        on_step=on_step,
        on_event=on_event,
        out=out,
        resume=resume,
        settings=settings,
        trust=trust,
        **more,
    )
    return wait_for(work)


async def atrain(
    team: TeamLike | Team | None = None,
    task: Task | None = None,
    rewards: Rewards | None = None,
    *,
    trainer: str | Mapping[str, Any] | None = None,
    hidden: Sequence[str] | None = None,
    on_step: OnStep | None = None,
    on_event: OnEvent | None = None,
    out: str | Path | None = None,
    resume: str | PathLike[str] | None = None,
    settings: Sequence[str] = (),
    trust: Consent = False,
    **more: Any,
) -> Training:
    """Train as `train` does, but within a running event loop, and return the run. A canceled run
    can be resumed."""
    if resume is not None:
        if any(value is not None for value in (team, task, trainer, hidden, out)):
            raise RecipeError(
                "resume continues a run with its own recipe; leave out team, task, trainer, hidden"
                " and out, and use settings to change a key"
            )
        team, out = Path(resume) / TRAINING, Path(resume)
    overrides = Overrides(task=task, rewards=rewards, hidden=hidden, settings=settings, keys=more)
    recipe = _recipe(team, overrides, trainer, trust)
    folder = Path(out) if out else new_run_path(recipe.name or recipe.team.name)

    def emit(event: TrainingEvent) -> None:
        if isinstance(event, RunStarted | StepFinished | Evaluation):
            for warning in event.warnings:
                LOGGER.warning(warning)
        if on_event is not None:
            on_event(event)
        if on_step is not None and isinstance(event, StepFinished):
            on_step({"step": event.step, "steps": event.steps, **event.metrics})

    run = TrainingRun(recipe, folder, resume=resume is not None, emit=emit)
    try:
        await run.run()
    except (asyncio.CancelledError, KeyboardInterrupt):
        if (folder / TRAINING).is_file():
            LOGGER.warning("training was interrupted; continue: collab.train(resume='%s')", folder)
        raise
    finally:
        mark_interrupted(folder)
    return Training(folder)


def _recipe(
    team: TeamLike | Team | None,
    overrides: Overrides,
    trainer: str | Mapping[str, Any] | None,
    trust: Consent,
) -> Recipe:
    if team is None:
        raise RecipeError("pass a team to train, or resume=RUN to continue a run")
    if isinstance(team, Team):
        rewards = team.rewards if overrides.rewards is None else overrides.rewards
        hidden = team.hidden if overrides.hidden is None else overrides.hidden
        overrides = replace(overrides, rewards=rewards, hidden=hidden)
        team = team.recipe
    top = {*Recipe.model_fields} - {"team", "task", "trainer"}
    keys, settings = split_keywords(
        overrides.keys,
        SECTIONS,
        top_keys=top,
        typed_settings=overrides.settings,
        preferred="trainer",
    )
    overrides = replace(overrides, settings=settings, keys={**keys, "trainer": trainer})
    recipe, question = read_recipe(team, overrides, defaults={"trainer": "magrpo"})
    allow(recipe, question, trust)
    return recipe
