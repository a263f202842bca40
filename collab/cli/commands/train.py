"""`collab train`."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from collab.cli import options
from collab.cli.options import argument, option
from collab.cli.screen.page import open_page
from collab.errors import RecipeError
from collab.signals import INTERRUPTED_STATUS

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.trainers import Plan
    from collab.trainers.learner.ranks import Ranks


def command(
    recipe: str | None = argument(
        "RECIPE",
        "A recipe file, a team's name, or the folder of a trained team.",
        autocompletion=options.complete_teams,
        default=None,
    ),
    *,
    task: list[str] | None = options.task_option("train on", more=""),
    trainer: str | None = option(
        "--trainer",
        "NAME",
        "Replace the recipe's trainer. Recipes without one use magrpo.",
        autocompletion=options.complete_trainers,
    ),
    model: str | None = options.MODEL,
    settings: list[str] | None = options.SETTINGS,
    seed: int | None = options.SEED,
    resume: Path | None = option(
        "--resume",
        "RUN",
        "Continue a run from its last checkpoint.",
        autocompletion=options.complete_runs,
    ),
    sandbox: options.Isolation | None = options.SANDBOX,
    workers: int | None = options.WORKERS,
    trust: bool = options.TRUST,
    json: bool = options.JSON,
    out: Path | None = options.RUN_OUT,
    card: str | None = option(
        "--card",
        "NAME|GIB",
        "With --dry-run: plan for this GPU, by name or by GiB, e.g. h100 or 24.",
    ),
    dry_run: bool = options.DRY_RUN,
    show_recipe: bool = options.SHOW_RECIPE,
    gpus: int | None = option("--gpus", "N", "Use N GPUs. Default: all that are visible.", min=1),
    ranks: int | None = option(
        "--ranks", "N", "Train in N processes on CPUs, without GPUs.", min=1
    ),
    written_in: Path | None = option(
        "--written-in",
        "FILE",
        "The file that holds these arguments, so that names in them need approval.",
        hidden=True,
    ),
) -> None:
    """Train a team on the joint reward, with one adapter per agent.

    Examples:
      collab train examples/recipes/humaneval-cpu.yaml
      collab train coding --task humaneval --trainer magrpo --dry-run
      collab train recipe.yaml --set trainer.learning_rate=3e-4 --out runs/first
      collab train recipe.yaml --gpus 4
      collab train --resume runs/first
      collab train recipe.yaml --dry-run --card h100
      collab run runs/first --task humaneval/140   # the trained team

    Exit status:
      0    success
      1    training failed
      2    bad usage, or a key, server or package is missing
      130  interrupted

    The last checkpoint is always kept. Continue from it with --resume.
    """
    from collab.recipe import allow, read_recipe
    from collab.recipe.in_python import Overrides
    from collab.runs.about import new_run_path
    from collab.runs.layout import TRAINING
    from collab.runtime.notes import warn_unused_settings
    from collab.trainers import make_plan
    from collab.trainers.ranks import launching
    from collab.trainers.training.plan.placement import choose_card_and_ranks, choose_ranks

    if not launching.is_leader():
        launching.follow_rank_0()
        return
    dry_run = dry_run or show_recipe
    has_own = bool(out or task or trainer or model) or seed is not None
    _check_source(recipe, resume, has_own_settings=has_own)
    _check_card(card, ranks, is_dry=dry_run)
    name = str(recipe if resume is None else resume / TRAINING)
    suite, tasks = _split_single_address(task) if task else (None, [])
    overrides = Overrides(
        task=suite,
        settings=options.with_sandbox([*(settings or ()), *tasks], sandbox, workers),
        keys={"trainer": trainer, "model": model, "seed": seed},
        written_in=written_in,
    )
    loaded, question = read_recipe(name, overrides, defaults={"trainer": "magrpo"})
    allow(loaded, question, options.consent(trust))
    notes = warn_unused_settings(loaded, model, settings or ())
    summary = _check_folder(loaded, out, resume)
    if dry_run:
        options.print_remarks(notes, "note")
        plan = make_plan(loaded, *choose_card_and_ranks(loaded, card, gpus, ranks, resume))
        _show_plan(plan, loaded, json=json, with_recipe=show_recipe)
        return
    if resume is not None and summary:
        _show_finished(resume, loaded, summary, json=json)
        return
    folder = resume or out or new_run_path(loaded.name or loaded.team.name)
    rank_plan = None if launching.is_rank() else choose_ranks(loaded, gpus, ranks, resume)
    if rank_plan is not None:
        print(rank_plan.text(folder), file=sys.stderr)
        command = [*sys.argv[1:], *([] if resume or out else ["--out", str(folder)])]
        raise typer.Exit(launching.launch(rank_plan.ranks, command, folder, rank_plan.on_gpus))
    options.print_remarks(notes, "note")
    with launching.lead_ranks() as group:
        status = _train(loaded, folder, group, resumed=resume is not None, json=json)
    raise typer.Exit(status)


def _check_source(recipe: str | None, resume: Path | None, *, has_own_settings: bool) -> None:
    from collab.runs.about import check_is_training

    if (recipe is None) == (resume is None):
        problem = "both a recipe and --resume are given" if recipe else "nothing to train"
        raise RecipeError(f"{problem}; specify a recipe to train, or --resume RUN to continue")
    if resume is not None:
        if has_own_settings:
            raise RecipeError("--resume takes all settings from the run; change them with --set")
        check_is_training(resume)


def _check_card(card: str | None, ranks: int | None, *, is_dry: bool) -> None:
    if card is not None and not is_dry:
        raise RecipeError("--card needs --dry-run, because training uses this machine's GPUs")
    if card is not None and ranks is not None:
        raise RecipeError(
            f"--ranks {ranks} runs on CPUs, but --card {card} plans for GPUs; use --gpus,"
            " or leave out --card"
        )


def _split_single_address(addresses: list[str]) -> tuple[str, list[str]]:
    """Return the suite of the only address, and the setting that selects its tasks."""
    from collab.tasks import split_address

    suite, selection = split_address(addresses[0])
    if len(addresses) > 1:
        raise RecipeError(
            f"--task is given {len(addresses)} times, and a training run has one suite; write"
            f" several ranges as {suite}/0-3,10-12"
        )
    return suite, [f"trainer.tasks={dumps(selection)}"] if selection else []


def _check_folder(recipe: Recipe, out: Path | None, resume: Path | None) -> dict[str, Any] | None:
    """Check the folder of the run, and return the summary of a run that is complete."""
    from collab.trainers.training.folder import TrainingFolder

    if resume is not None:
        return TrainingFolder.finished(resume, recipe)
    if out is not None:
        TrainingFolder.check_is_free(out)
    return None


def _show_finished(run: Path, recipe: Recipe, summary: dict[str, Any], *, json: bool) -> None:
    """Show the result of a training run that has nothing left to do."""
    from collab.cli.live.view import JsonView, TextView
    from collab.trainers.training.events import TrainingFinished

    token_limit = recipe.trainer.tokens if recipe.trainer else None
    limit = "steps" if token_limit is None or summary["tokens"] < token_limit else "tokens"
    print(f"{run} is finished; to train longer, add --set trainer.{limit}=N", file=sys.stderr)
    view = JsonView() if json else TextView(open_page(), folder=str(run))
    view.show(TrainingFinished(run=run.name, status="done", summary=summary))


def _show_plan(plan: Plan, recipe: Recipe, *, json: bool, with_recipe: bool) -> None:
    from collab.recipe.writing import dump_recipe

    if json:
        total = {"memory_total": plan.total, "recipe": recipe.model_dump()}
        print(dumps({**asdict(plan), **total}))
        return
    if with_recipe:  # the recipe is long, so the plan comes last
        print(dump_recipe(recipe))
    print(plan.text())


def _train(recipe: Recipe, folder: Path, ranks: Ranks, *, resumed: bool, json: bool) -> int:
    from collab.cli.live.running import open_view, run_to_end
    from collab.runs.about import mark_interrupted, resume_hint
    from collab.trainers.training.events import TrainingEvent, TrainingProgress
    from collab.trainers.training.run import TrainingRun

    options.set_up_tracing()
    view = open_view(json=json)

    def emit(event: TrainingEvent) -> None:
        if view.progress or not isinstance(event, TrainingProgress):
            view.show(event)

    def finish(end: str) -> str:
        if end == "interrupted":
            mark_interrupted(folder)
        return f" at step {training.step}{resume_hint(folder)}"

    with closing(view):
        training = TrainingRun(
            recipe, folder, resume=resumed, emit=emit, loading=view.show_loading, ranks=ranks
        )
        return 0 if run_to_end(training.run(), view, finish) else INTERRUPTED_STATUS
