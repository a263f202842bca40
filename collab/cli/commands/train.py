"""`collab train`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from collab.cli.options import (
    DRY_RUN,
    JSON,
    MODEL,
    SANDBOX,
    SETTINGS,
    SHOW_RECIPE,
    TRUST,
    WORKERS,
    argument,
    complete_runs,
    complete_suites,
    complete_teams,
    complete_trainers,
    consent,
    option,
    send_spans,
    with_sandbox,
)
from collab.cli.screen.page import open_page
from collab.errors import RecipeError
from collab.wording import counted

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.trainers import Plan
    from collab.trainers.learner.ranks import Ranks
    from collab.trainers.training.plan.cards import Card


def command(
    recipe: str | None = argument(
        "RECIPE|TEAM|FOLDER",
        "A recipe file, a team's name, or a trained team's folder.",
        autocompletion=complete_teams,
        default=None,
    ),
    *,
    task: str | None = option(
        "--task, -t",
        "SUITE[/TASKS]",
        "Replace the recipe's tasks, e.g. humaneval/0-19.",
        autocompletion=complete_suites,
    ),
    trainer: str | None = option(
        "--trainer",
        "NAME",
        "Replace the recipe's trainer. Default: magrpo.",
        autocompletion=complete_trainers,
    ),
    model: str | None = MODEL,
    settings: list[str] | None = SETTINGS,
    seed: int | None = option(
        "--seed", "N", "Random seed; the same seed gives the same training.", min=0
    ),
    resume: Path | None = option(
        "--resume", "RUN", "Continue a run from its last checkpoint.", autocompletion=complete_runs
    ),
    sandbox: str | None = SANDBOX,
    workers: int | None = WORKERS,
    trust: bool = TRUST,
    json: bool = JSON,
    out: Path | None = option("--out", "DIR", "Folder of the run. Default: runs/ID."),
    card: str | None = option(
        "--card", "NAME|GB", "With --dry-run: plan for this GPU, e.g. h100, rtx4090 or 24."
    ),
    dry_run: bool = DRY_RUN,
    show_recipe: bool = SHOW_RECIPE,
    gpus: int | None = option("--gpus", "N", "Use N GPUs. Default: all that are visible.", min=1),
    ranks: int | None = option(
        "--ranks", "N", "Train in N processes on CPUs, without GPUs.", min=1
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

    Exit status: 0 done, 1 the training failed, 2 bad usage or something is
    missing (a key, a server, a package), 130 interrupted. The last checkpoint
    is always kept; continue from it with --resume.
    """
    from json import dumps

    from collab.errors import RecipeError
    from collab.recipe import load_recipe
    from collab.runs.about import new_run_id
    from collab.tasks import split_address
    from collab.trainers import make_plan
    from collab.trainers.ranks.launching import following, is_first, is_rank, launch, leading
    from collab.trainers.training.folder import TrainingFolder

    if not is_first():
        following()
        return
    if (recipe is None) == (resume is None):
        passed = "both a recipe and --resume are" if recipe else "no recipe and no --resume is"
        raise RecipeError(f"{passed} given; give a recipe to train, or --resume RUN to continue")
    if resume is not None and (out or task or trainer or model or seed is not None):
        raise RecipeError("--resume takes all settings from the run; change them with --set")
    dry_run = dry_run or show_recipe
    if card is not None and not dry_run:
        raise RecipeError("--card needs --dry-run; a training here uses this machine's GPUs")
    if card is not None and ranks is not None:
        raise RecipeError(
            f"--ranks {ranks} runs on CPUs, but --card {card} plans for GPUs; give --gpus,"
            " or leave out --card"
        )
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
    if dry_run:
        plan = make_plan(loaded, *place_of(loaded, card, gpus, ranks, resume))
        _show_plan(plan, loaded, json=json, whole=show_recipe)
        return
    if resume is not None and (summary := TrainingFolder.finished(resume, loaded)):
        _show_finished(resume, summary, json=json)
        return
    folder = resume or out or Path("runs") / new_run_id(loaded.name or loaded.team.name)
    wanted = None if is_rank() else ranks_wanted(loaded, gpus, ranks, resume)
    if wanted is not None:
        print(wanted.text(folder), file=sys.stderr)
        place = [] if resume or out else ["--out", str(folder)]
        raise typer.Exit(launch(wanted.ranks, [*sys.argv[1:], *place], folder, wanted.on_gpus))
    with leading() as group:
        status = _train(loaded, folder, group, resumed=resume is not None, json=json)
    raise typer.Exit(status)


def _training_recipe(run: Path) -> Path:
    from collab.errors import RecordError
    from collab.runs.about import check_holds_run
    from collab.runs.layout import TRAINING

    check_holds_run(run, "collab train RECIPE")
    path = run / TRAINING
    if not path.is_file():
        raise RecordError(
            f"{run} is not a training run: it has no {TRAINING}; `collab show` lists your runs"
        )
    return path


def _check_folder(recipe: Recipe, out: Path | None, resume: Path | None) -> None:
    from collab.trainers.training.folder import TrainingFolder

    if resume is not None:
        TrainingFolder.check(resume, recipe)
    elif out is not None:
        TrainingFolder.check_is_free(out)


def _show_finished(run: Path, summary: dict[str, Any], *, json: bool) -> None:
    """Show the result of a training that has nothing left to do."""
    from collab.cli.live.view import JsonView, Report
    from collab.runtime.events import RunFinished

    print(f"{run} is finished; to train longer, give --set trainer.steps=N", file=sys.stderr)
    view = JsonView() if json else Report(open_page(), folder=str(run))
    view.see(RunFinished(run=run.name, status="done", summary=summary))


def _show_plan(plan: Plan, recipe: Recipe, *, json: bool, whole: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    from collab.recipe.schema import dump_recipe

    if json:
        total = {"memory_total": plan.total, "recipe": recipe.model_dump()}
        print(dumps({**asdict(plan), **total}))
        return
    if whole:  # the recipe is long, so the plan comes last
        print(dump_recipe(recipe))
    print(plan.text())


def _train(recipe: Recipe, folder: Path, ranks: Ranks, *, resumed: bool, json: bool) -> int:
    from contextlib import closing

    from collab.cli.live import open_view
    from collab.cli.live.playing import run_to_end
    from collab.runs.about import mark_interrupted
    from collab.runs.layout import TRAINING
    from collab.trainers.training.events import TrainingEvent, TrainingProgress
    from collab.trainers.training.run import TrainingRun

    send_spans()
    view = open_view(json=json)

    def emit(event: TrainingEvent) -> None:
        if view.progress or not isinstance(event, TrainingProgress):
            view.see(event)

    def finish(end: str) -> str:
        if end == "interrupted":
            mark_interrupted(folder)
        begun = (folder / TRAINING).is_file()
        going_on = f"; continue with: collab train --resume {folder}" if begun else ""
        return f" at step {training.step}{going_on}"

    with closing(view):
        training = TrainingRun(
            recipe, folder, resume=resumed, emit=emit, loading=view.loading, ranks=ranks
        )
        return 0 if run_to_end(training.run(), view, finish) else 130


REMEDY = "name a GPU to plan for, as in --dry-run --card h100 (its name, or its memory in GB)"


class Wanted(NamedTuple):
    """Ranks to start."""

    ranks: int
    on_gpus: bool

    def text(self, folder: Path) -> str:
        """The ranks, their logs, and how to stop them."""
        from collab.runs.layout import LOGS

        where = "each on its own GPU" if self.on_gpus else "on CPUs"
        fewer = "; --gpus 1 takes one" if self.on_gpus else ""
        logs = f"; logs of the other ranks are in {folder / LOGS}" if self.ranks > 1 else ""
        return f"learning in {counted(self.ranks, 'rank')}, {where}{logs}; Ctrl-C ends all{fewer}"


def ranks_wanted(
    recipe: Recipe, gpus: int | None, ranks: int | None, resume: Path | None
) -> Wanted | None:
    """The ranks to start; None for this process alone.

    Raises:
        RecipeError: more GPUs than there are, or ranks on CPUs although the models use a GPU.
    """
    if ranks is not None and gpus is not None:
        raise RecipeError(
            "--gpus sets the number of GPUs, --ranks the number of processes"
            " without a GPU; give only one of them"
        )
    visible = _visible_gpus() if _takes_gpus(recipe) else 0
    if ranks is not None:
        if visible:
            raise RecipeError(
                f"--ranks {ranks} runs on CPUs, but the recipe's models use one of"
                f" {counted(visible, 'GPU')}; give --gpus, or set model.device=cpu"
            )
        return Wanted(ranks, on_gpus=False)
    if gpus is not None and gpus > visible:
        raise RecipeError(
            f"--gpus {gpus} is more than the {visible} that the recipe's models can use; lower it,"
            f" check CUDA_VISIBLE_DEVICES and model.device, give --ranks to train on CPUs, or"
            f" {REMEDY}"
        )
    if visible:
        wanted = gpus or visible
        return Wanted(wanted, on_gpus=True) if wanted > 1 else None
    before = _ranks_of(resume)
    return Wanted(before, on_gpus=False) if before else None


def _visible_gpus() -> int:
    from collab.trainers.training.plan.cards import may_have_gpus

    if not may_have_gpus():
        return 0
    import torch

    return torch.cuda.device_count()


def _takes_gpus(recipe: Recipe) -> bool:
    """True if every trained model may be on any GPU."""
    trained = [name for name, agent in recipe.team.agents.items() if agent.trainable]
    return all(device in ("auto", "cuda") for device in _devices(recipe, trained))


def _devices(recipe: Recipe, agents: Iterable[str]) -> list[str]:
    """The device of each agent's weights; "" if they are not on this machine."""
    from collab.recipe.model import local_weights

    weights = [local_weights(recipe.model_of(name)) for name in agents]
    return [each.device if each else "" for each in weights]


def _ranks_of(run: Path | None) -> int | None:
    """The number of ranks of a resumed run, which sums its gradients as before."""
    from collab.runs.about import read_about

    ranks = read_about(run).get("ranks") if run is not None else None
    return ranks if isinstance(ranks, int) else None


def place_of(
    recipe: Recipe, named: str | None, gpus: int | None, ranks: int | None, resume: Path | None
) -> tuple[Card | None, int]:
    """The card to plan for, and the number of ranks; no card for a run on CPUs.

    Raises:
        RecipeError: options exclude each other, or GPUs are missing here and `--card` is not given.
        UnknownName: no such card.
    """
    from collab.trainers.training.plan.cards import card, card_of_here

    if named is not None:
        return card(named), gpus or 1
    devices = _devices(recipe, recipe.team.agents)
    on_gpu = next((device for device in devices if device.startswith("cuda")), None)
    here = [card_of_here(n) for n in range(_visible_gpus())] if _takes_gpus(recipe) else []
    if not here and on_gpu:
        import torch

        from collab.models.weights import unused_gpu

        if not torch.cuda.is_available():
            why = unused_gpu() or f"this machine has no GPU; {REMEDY}"
            raise RecipeError(f"model.device is {on_gpu!r}, but {why}")
    wanted = ranks_wanted(recipe, gpus, ranks, resume)
    taken = wanted.ranks if wanted else 1
    # Each rank has to fit, so plan for the card with the least memory.
    return min(here[:taken], key=lambda gpu: gpu.memory, default=None), taken
