"""`collab probe`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.cli.arguments.options import (
    Isolation,
    Json,
    ModelName,
    RunOut,
    Settings,
    Team,
    Trust,
    consent,
    suite_of,
    with_sandbox,
)

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.records import Problem


TrainingProblems = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        metavar="ADDRESS",
        help="A suite, of which its training tasks are drawn, or problems. Repeatable.",
    ),
]
GroupSize = Annotated[
    int | None,
    typer.Option(
        "--samples",
        "-n",
        metavar="G",
        min=2,
        help="Episodes of each task. Default: the trainer's group_size, or 8.",
    ),
]
Draws = Annotated[int, typer.Option("--tasks", metavar="N", min=1, help="Tasks to draw at most.")]
SeedOfDraws = Annotated[
    int | None, typer.Option("--seed", metavar="N", min=0, help="Same seed, same tasks.")
]


def command(
    team: Team,
    *,
    task: TrainingProblems = None,
    model: ModelName = None,
    settings: Settings = None,
    samples: GroupSize = None,
    tasks: Draws = 10,
    seed: SeedOfDraws = None,
    sandbox: Isolation = None,
    trust: Trust = False,
    json: Json = False,
    out: RunOut = None,
) -> None:
    """Tell, before anyone trains, what a team's play says of training it.

    Some tasks are played, and answers that were given side by side are judged in
    all combinations. What is told: returns, groups that would teach nothing, who
    decides the reward, answers that are cut off or empty, the best of G samples
    and of G^n combinations, and in plain words what to change.

    [bold]Examples[/]
      collab probe coding --task humaneval
      collab probe coding --task humaneval --samples 4 --tasks 20 --json
      collab probe examples/recipes/game.yaml --out runs/probe
      collab report runs/probe

    The folder is that of an ordinary run, with probe.json in it.

    Exit status: 0 done, 1 the run or every episode failed, 2 bad usage or
    something is missing, 130 interrupted.
    """
    from collab.cli.checks.plan import check
    from collab.probe.probe import draw, training_addresses
    from collab.recipe import load_recipe

    recipe = load_recipe(
        team,
        task=suite_of(task),
        settings=with_sandbox(settings, sandbox),
        trust=consent(trust),
        model=model,
        seed=seed,
    )
    planned = recipe.trainer.group_size if recipe.trainer and recipe.trainer.group_size > 1 else 8
    recipe = recipe.model_copy(update={"samples": samples or planned})
    recipe, problems = check(recipe, training_addresses(recipe, task or []))
    raise typer.Exit(_probe(recipe, draw(problems, tasks, recipe.seed), out, json=json))


def _probe(recipe: Recipe, problems: Sequence[Problem], out: Path | None, *, json: bool) -> int:
    import asyncio
    import time

    from collab.cli.live.playing import exit_status, play
    from collab.cli.live.running import LiveRun, RunReport
    from collab.cli.live.views import JsonView, open_view
    from collab.cli.screen.probe import show_probe
    from collab.cli.screen.terminal import open_page
    from collab.probe.probe import probe
    from collab.runs.about import new_run_id
    from collab.runs.atomic import write_atomically
    from collab.runs.layout import PROBE

    folder = out or Path("runs") / new_run_id(recipe.team.name)
    view = open_view(RunReport, LiveRun, json=json)
    began = time.perf_counter()
    played = play(recipe, problems, out=folder, view=view)
    status = exit_status(played, require_solved=False)
    if played.status != "done" or all(episode.failure for episode in played.episodes):
        if played.failure:
            told = f"{played.failure.type}: {played.failure.message}"
            print(f"error: every episode failed: {told}", file=sys.stderr)
        return status
    found = asyncio.run(probe(recipe, problems, played.episodes, time.perf_counter() - began))
    write_atomically(folder / PROBE, found.model_dump_json(indent=2))
    if isinstance(view, JsonView):
        view.see(found)
    else:
        show_probe(open_page(), found)
    return status
