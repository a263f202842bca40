"""`collab probe`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import typer

from collab.cli import options
from collab.cli.options import option
from collab.errors import RecipeError

_DEFAULT_SAMPLES = 8


def command(
    team: str = options.TEAM,
    *,
    task: list[str] | None = options.task_option("probe"),
    model: str | None = options.MODEL,
    settings: list[str] | None = options.SETTINGS,
    samples: int | None = options.samples_option(
        f"trainer.group_size, or {_DEFAULT_SAMPLES}", minimum=2
    ),
    tasks: int = option("--tasks", "N", "Maximum number of tasks.", min=1, default=10),
    seed: int | None = options.SEED,
    sandbox: options.Isolation | None = options.SANDBOX,
    trust: bool = options.TRUST,
    json: bool = options.JSON,
    out: Path | None = options.RUN_OUT,
) -> None:
    """Check, before training, whether a team has anything to learn from.

    The command draws some tasks by the seed, from a suite's training split, runs
    them with N samples each, and scores all combinations of the agents'
    independent answers. Then it prints:
      the returns, and the share of groups whose returns are all equal
      the share of the reward's variance that each agent explains
      the shares of truncated and of empty answers
      the best sample and the best combination
      changes that may help

    Examples:
      collab probe coding --task humaneval
      collab probe coding --task humaneval --samples 4 --tasks 20 --json
      collab probe examples/recipes/game.yaml --out runs/probe
      collab report runs/probe

    The result is an ordinary run folder with an extra file, probe.json.

    Exit status:
      0    success
      1    the run failed, or every episode did
      2    bad usage, or a key, server or package is missing
      130  interrupted
    """
    from collab.cli.live.running import exit_status, open_view, run_with_view
    from collab.cli.plan import prepare_run
    from collab.probe.probe import draw_problems, probe, training_addresses
    from collab.recipe import load_recipe
    from collab.runs.about import new_run_path
    from collab.runs.atomic import write_atomically
    from collab.runs.layout import PROBE
    from collab.runtime.notes import warn_unused_settings

    for text in settings or ():
        if text.partition("=")[0].strip() == "samples":
            raise RecipeError(f"a probe takes its samples from --samples; leave out --set {text}")
    recipe = load_recipe(
        team,
        task=options.suite_of(task),
        settings=options.with_sandbox(settings, sandbox),
        trust=options.consent(trust),
        model=model,
        seed=seed,
    )
    options.print_remarks(warn_unused_settings(recipe, model, settings or ()), "note")
    group_size = recipe.trainer.group_size if recipe.trainer else 1
    default_samples = group_size if group_size > 1 else _DEFAULT_SAMPLES
    recipe = recipe.model_copy(update={"samples": samples or default_samples})
    recipe, problems = prepare_run(recipe, training_addresses(recipe, task or []))
    recipe.check_scored()
    problems = draw_problems(problems, tasks, recipe.seed)
    folder = out or new_run_path(recipe.team.name)
    view = open_view(json=json)
    began = time.perf_counter()
    finished = run_with_view(recipe, problems, out=folder, view=view)
    if finished.status == "done" and not all(episode.failure for episode in finished.episodes):
        seconds = time.perf_counter() - began
        outcome = asyncio.run(probe(recipe, problems, finished.episodes, seconds))
        write_atomically(folder / PROBE, outcome.model_dump_json(indent=2))
        view.show(outcome)
    raise typer.Exit(exit_status(finished, require_solved=False))
