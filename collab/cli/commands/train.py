"""`collab train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.cli.launch.place import Gpus, RanksHere, ranks_wanted
from collab.cli.options import (
    DryRun,
    Isolation,
    Json,
    ModelName,
    Settings,
    ShowRecipe,
    Trust,
    Workers,
    complete_runs,
    complete_suites,
    complete_teams,
    complete_trainers,
    consent,
    with_sandbox,
)

if TYPE_CHECKING:
    from collab.cli.launch.slurm import Given
    from collab.recipe import Recipe
    from collab.trainers import Plan
    from collab.trainers.learner.ranks import Ranks


TrainableRecipe = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE|TEAM|FOLDER",
        help="A recipe file, a team's name, or a trained team's folder.",
        autocompletion=complete_teams,
    ),
]
Suite = Annotated[
    str | None,
    typer.Option(
        "--task",
        "-t",
        metavar="SUITE[/TASKS]",
        help="In place of the recipe's own, e.g. humaneval/0-19.",
        autocompletion=complete_suites,
    ),
]
Trainer = Annotated[
    str | None,
    typer.Option(
        "--trainer",
        metavar="NAME",
        help="In place of the recipe's own; magrpo where it names none.",
        autocompletion=complete_trainers,
    ),
]
SeedOfTraining = Annotated[
    int | None, typer.Option("--seed", metavar="N", min=0, help="Same seed, same training.")
]
Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Go on with a run from its last checkpoint.",
        autocompletion=complete_runs,
    ),
]
TrainingOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder of the run. Default: runs/ID."),
]
Card = Annotated[
    str | None,
    typer.Option(
        "--card",
        metavar="NAME|GB",
        help="With --dry-run: plan for this GPU, e.g. h100, rtx4090 or 24; it need not be here.",
    ),
]
SlurmJob = Annotated[
    str | None,
    typer.Option(
        "--slurm",
        metavar="nodes=N,gpus=N",
        help="Submit as a job: gpus of each node; also partition, account, time, template.",
    ),
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
    workers: Workers = None,
    trust: Trust = False,
    json: Json = False,
    out: TrainingOut = None,
    card: Card = None,
    slurm: SlurmJob = None,
    dry_run: DryRun = False,
    show_recipe: ShowRecipe = False,
    gpus: Gpus = None,
    ranks: RanksHere = None,
) -> None:
    r"""Train a team: every agent by the joint reward, each with an adapter of its own.

    [bold]Examples[/]
      collab train examples/recipes/humaneval-cpu.yaml
      collab train coding --task humaneval --trainer magrpo --dry-run
      collab train recipe.yaml --set trainer.learning_rate=3e-4 --out runs/first
      collab train recipe.yaml --gpus 4
      collab train --resume runs/first
      collab train recipe.yaml --dry-run --card h100
      collab train recipe.yaml --slurm nodes=2,gpus=8
      collab run runs/first --task humaneval/140        the team that came of it

    Exit status: 0 done, 1 the training failed, 2 bad usage, 130 interrupted.
    What was done up to the last checkpoint is kept in every case; go on with
    --resume.
    """
    from json import dumps

    from collab.cli.launch.place import Asked, check_options, place_of
    from collab.cli.launch.slurm import Given, send
    from collab.cli.live.finished import show_finished
    from collab.errors import RecipeError
    from collab.recipe import load_recipe
    from collab.runs.about import new_run_id
    from collab.tasks import split_address
    from collab.trainers import make_plan
    from collab.trainers.ranks.launching import following, is_first, is_rank, launch, leading

    if not is_first():
        following()
        return
    if (recipe is None) == (resume is None):
        raise RecipeError("give a recipe to train, or a run to go on with (--resume RUN)")
    if resume is not None and (out or task or trainer or model or seed is not None):
        raise RecipeError("--resume goes on with a run as it is; only --set can change it")
    dry_run = dry_run or show_recipe
    if card is not None and not (dry_run or slurm):
        raise RecipeError(
            "--card is what --dry-run plans for; training takes the GPUs that are here"
        )
    asked = Asked(card, slurm, gpus, ranks, resume)
    check_options(asked)
    name = str(_training_recipe(resume)) if resume is not None else str(recipe)
    task, selection = split_address(task) if task else (None, "")
    chosen = [f"trainer.tasks={dumps(selection)}"] if selection else []
    changed = with_sandbox([*chosen, *(settings or ())], sandbox, workers)
    loaded = load_recipe(
        name,
        task=task,
        settings=changed,
        defaults={"trainer": "magrpo"},
        trust=consent(trust),
        trainer=trainer,
        model=model,
        seed=seed,
    )
    _check_folder(loaded, out, resume)
    given = Given(recipe, changed, trust, task, trainer, model, seed)
    job = _job(loaded, given, slurm, out, resume) if slurm is not None else None
    if dry_run:
        plan = make_plan(loaded, *place_of(loaded, asked))
        _show_plan(plan, loaded, job, json=json, whole=show_recipe)
        return
    if job is not None:
        send(*job)
        return
    if resume is not None and show_finished(loaded, resume, json=json):
        return
    folder = resume or out or Path("runs") / new_run_id(loaded.name or loaded.team.name)
    wanted = None if is_rank() else ranks_wanted(loaded, gpus, ranks, resume)
    if wanted is not None:
        print(wanted.told(folder), file=sys.stderr)
        place = [] if resume or out else ["--out", str(folder)]
        raise typer.Exit(launch(wanted.ranks, [*sys.argv[1:], *place], folder, wanted.on_gpus))
    with leading() as group:
        status = _train(loaded, folder, group, resumed=resume is not None, json=json)
    raise typer.Exit(status)


def _training_recipe(run: Path) -> Path:
    from collab.errors import RecordError
    from collab.runs.layout import TRAINING

    if not run.exists():
        raise RecordError(f"{run} does not exist; runs are in runs/ or where --out said")
    path = run / TRAINING
    if not path.is_file():
        raise RecordError(f"{run} is no training run: it has no {TRAINING}")
    return path


def _job(
    recipe: Recipe, given: Given, slurm: str, out: Path | None, resume: Path | None
) -> tuple[str, Path]:
    """The file of a job, and the folder of its run; raises what a run that cannot begin raises."""
    from collab.cli.launch.slurm import sbatch_file
    from collab.runs.about import new_run_id
    from collab.trainers.training.check import check_recipe

    check_recipe(recipe)
    folder = resume or out or Path("runs") / new_run_id(recipe.name or recipe.team.name)
    return sbatch_file(slurm, given, folder, resumed=resume is not None), folder


def _check_folder(recipe: Recipe, out: Path | None, resume: Path | None) -> None:
    from collab.trainers.training.folder import TrainingFolder

    if resume is not None:
        TrainingFolder.check(resume, recipe)
    elif out is not None:
        TrainingFolder.check_is_free(out)


def _show_plan(
    plan: Plan,
    recipe: Recipe,
    job: tuple[str, Path] | None,
    *,
    json: bool,
    whole: bool,
) -> None:
    from dataclasses import asdict
    from json import dumps

    from collab.recipe.dump import dump_recipe

    if json:
        told = {**asdict(plan), "memory_total": plan.total, "recipe": recipe.model_dump()}
        print(dumps({**told, "sbatch": job[0]} if job else told))
        return
    if whole:  # what is long stands above what is looked for
        print(dump_recipe(recipe))
    print(plan.text())
    if job:
        print(f"\n{job[0]}", end="")


def _train(recipe: Recipe, folder: Path, ranks: Ranks, *, resumed: bool, json: bool) -> int:
    import asyncio

    from collab.cli.live.playing import Interruption
    from collab.cli.live.training import LiveTraining, TrainingReport
    from collab.cli.live.views import open_view
    from collab.cli.options import send_spans
    from collab.runs.about import mark_interrupted
    from collab.runs.layout import TRAINING
    from collab.trainers.training.events import TrainingEvent, TrainingProgress
    from collab.trainers.training.run import TrainingRun

    send_spans()
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
            recipe, folder, resume=resumed, emit=emit, loading=view.loading, ranks=ranks
        )
        status = asyncio.run(main(training))
    finally:
        view.close()
    if status:
        begun = (folder / TRAINING).is_file()
        going_on = f"; go on with: collab train --resume {folder}" if begun else ""
        print(f"interrupted at step {training.step}{going_on}", file=sys.stderr)
    return status
