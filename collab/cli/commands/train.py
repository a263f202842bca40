"""`collab train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.cli.arguments.options import (
    DryRun,
    Isolation,
    Json,
    ModelName,
    Settings,
    Trust,
    consent,
    with_isolation,
)

if TYPE_CHECKING:
    from collab.recipe import Recipe


TrainableRecipe = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE|TEAM|FOLDER",
        help="A recipe file, a team's name, or a trained team's folder.",
    ),
]
Suite = Annotated[
    str | None,
    typer.Option("--task", "-t", metavar="SUITE", help="In place of the recipe's own."),
]
Trainer = Annotated[
    str | None,
    typer.Option(
        "--trainer",
        metavar="NAME",
        help="In place of the recipe's own; magrpo where it names none.",
    ),
]
SeedOfTraining = Annotated[
    int | None, typer.Option("--seed", metavar="N", min=0, help="Same seed, same training.")
]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="RUN", help="Go on with a run from its last checkpoint."),
]
TrainingOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder of the run. Default: runs/ID."),
]


def command(
    recipe: TrainableRecipe = None,
    *,
    task: Suite = None,
    trainer: Trainer = None,
    model: ModelName = None,
    settings: Settings = None,
    seed: SeedOfTraining = None,
    resume: Resume = None,
    sandbox: Isolation = None,
    trust: Trust = False,
    json: Json = False,
    out: TrainingOut = None,
    dry_run: DryRun = False,
) -> None:
    r"""Train a team: every agent by the joint reward, each with an adapter of its own.

    [bold]Examples[/]
      collab train examples/recipes/humaneval-cpu.yaml
      collab train coding --task humaneval --trainer magrpo --dry-run
      collab train recipe.yaml --set trainer.learning_rate=3e-4 --out runs/first
      collab train --resume runs/first
      collab run runs/first --task humaneval/140        the team that came of it

    Exit status: 0 done, 1 the training failed, 2 bad usage, 130 interrupted.
    What was done up to the last checkpoint is kept in every case; go on with
    --resume.
    """
    from collab.errors import RecipeError
    from collab.recipe import load_recipe

    if (recipe is None) == (resume is None):
        raise RecipeError("give a recipe to train, or a run to go on with (--resume RUN)")
    if resume is not None and (out or task or trainer or model or seed is not None):
        raise RecipeError("--resume goes on with a run as it is; only --set can change it")
    name = str(_training_recipe(resume)) if resume is not None else str(recipe)
    loaded = load_recipe(
        name,
        task=task,
        settings=with_isolation(settings, sandbox),
        defaults={"trainer": "magrpo"},
        trust=consent(trust),
        trainer=trainer,
        model=model,
        seed=seed,
    )
    if dry_run:
        _show_plan(loaded, out, resume, json=json)
    else:
        raise typer.Exit(_train(loaded, out, resume, json=json))


def _training_recipe(run: Path) -> Path:
    from collab.errors import RecordError
    from collab.runs.layout import TRAINING

    if not run.exists():
        raise RecordError(f"{run} does not exist; runs are in runs/ or where --out said")
    path = run / TRAINING
    if not path.is_file():
        raise RecordError(f"{run} is no training run: it has no {TRAINING}")
    return path


def _show_plan(recipe: Recipe, out: Path | None, resume: Path | None, *, json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    from collab.recipe.dump import dump_recipe
    from collab.trainers.training.folder import TrainingFolder
    from collab.trainers.training.plan.plan import make_plan

    plan = make_plan(recipe)
    if resume is not None:
        TrainingFolder.check(resume, recipe)
    elif out is not None:
        TrainingFolder.check_is_free(out)
    if json:
        print(dumps({**asdict(plan), "memory_total": plan.total, "recipe": recipe.model_dump()}))
    else:
        print(plan.text())
        print()
        print(dump_recipe(recipe), end="")


def _train(recipe: Recipe, out: Path | None, resume: Path | None, *, json: bool) -> int:
    import asyncio

    from collab.cli.live.playing import Interruption
    from collab.cli.live.training import LiveTraining, TrainingReport
    from collab.cli.live.views import open_view
    from collab.runs.about import mark_interrupted, new_run_id
    from collab.runs.layout import TRAINING
    from collab.trainers.training.events import TrainingEvent, TrainingProgress
    from collab.trainers.training.run import TrainingRun

    folder = resume or out or Path("runs") / new_run_id(recipe.name or recipe.team.name)
    view = open_view(TrainingReport, LiveTraining, json=json)

    def emit(event: TrainingEvent) -> None:
        if view.progress or not isinstance(event, TrainingProgress):
            view.see(event)

    def give_up() -> None:
        view.close()
        mark_interrupted(folder)

    async def main(training: TrainingRun) -> int:
        with Interruption(give_up) as interruption:
            try:
                await training.run()
            except asyncio.CancelledError:
                if not interruption.happened:
                    raise
                return 130
        return 0

    try:
        training = TrainingRun(
            recipe, folder, resume=resume is not None, emit=emit, loading=view.loading
        )
        status = asyncio.run(main(training))
    finally:
        view.close()
    if status:
        begun = (folder / TRAINING).is_file()
        going_on = f"; go on with: collab train --resume {folder}" if begun else ""
        print(f"interrupted at step {training.step}{going_on}", file=sys.stderr)
    return status
