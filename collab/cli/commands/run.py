"""`collab run`."""

from __future__ import annotations

import asyncio
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from collab.cli import options
from collab.cli.options import flag, option
from collab.cli.screen.page import Block, open_page
from collab.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from collab.recipe import Recipe


def command(
    team: str = options.TEAM,
    *,
    task: list[str] | None = options.task_option("run"),
    prompt: str | None = option(
        "--prompt", "TEXT", "Run on this text instead of a task. The answer is not scored."
    ),
    model: str | None = options.MODEL,
    settings: list[str] | None = options.SETTINGS,
    samples: int | None = options.samples_option("the recipe's, otherwise 1"),
    best_of: int | None = option(
        "--best-of",
        "G",
        "Run G episodes per task, score all combinations of the agents' answers and keep the best.",
        min=2,
    ),
    seed: int | None = options.SEED,
    sandbox: options.Isolation | None = options.SANDBOX,
    workers: int | None = options.WORKERS,
    trust: bool = options.TRUST,
    json: bool = options.JSON,
    out: Path | None = options.RUN_OUT,
    require_solved: bool = flag(
        "--require-solved", "Exit with status 1 unless every episode is solved."
    ),
    dry_run: bool = options.DRY_RUN,
    show_recipe: bool = options.SHOW_RECIPE,
) -> None:
    """Run a team on tasks and score its answers.

    Examples:
      collab run coding --task humaneval/12
      collab run coding --task humaneval/0-15 --samples 4 --seed 1 --json
      collab run coding -t humaneval/12 --set team.turns=2
      collab run coding -t humaneval/12 --set 'team.feedback=[static, execution]'
      collab run coding -t mine.jsonl/3 --set agents.main.sampling.top_p=0.9
      collab run coding -t humaneval/12 --best-of 4
      collab run tldr --prompt 'Explain recursion in two sentences.'
      collab run recipe.yaml --model echo --dry-run

    Exit status:
      0    success
      1    the run failed, or every episode did; with --require-solved, also:
           an episode is not solved
      2    bad usage, or a key, server or package is missing
      130  interrupted
    """
    from collab.recipe import load_recipe
    from collab.runtime.notes import warn_unused_settings

    if best_of is not None and samples is not None:
        raise RecipeError(
            f"--best-of {best_of} already runs {best_of} episodes per task; leave out --samples"
        )
    if prompt is not None:
        _check_prompt(prompt, task, settings or (), best_of, require_solved=require_solved)
    recipe = load_recipe(
        team,
        task=options.suite_of(task),
        settings=options.with_sandbox(settings, sandbox, workers),
        trust=options.consent(trust),
        model=model,
        samples=best_of or samples,
        seed=seed,
    )
    if prompt is not None:
        recipe = load_recipe(recipe, task=[_prompt_row(recipe, prompt)], rewards=[])
    options.print_remarks(warn_unused_settings(recipe, model, settings or ()), "note")
    if best_of is not None:
        from collab.probe.best_of import check_best_of

        check_best_of(recipe, best_of)
    if dry_run or show_recipe:
        _show_plan(recipe, task or [], json=json, with_recipe=show_recipe)
        return
    combine = best_of is not None
    raise typer.Exit(
        _run(recipe, task or [], out, json=json, require_solved=require_solved, combine=combine)
    )


def _check_prompt(
    prompt: str,
    task: Sequence[str] | None,
    settings: Sequence[str],
    best_of: int | None,
    *,
    require_solved: bool,
) -> None:
    of_task = [s for s in settings if s.partition("=")[0].strip().partition(".")[0] == "task"]
    if task or of_task:
        other = f"--set {of_task[0]}" if of_task else "--task"
        raise RecipeError(f"--prompt replaces the task; leave out {other} or --prompt")
    if best_of is not None or require_solved:
        other = "--require-solved" if require_solved else "--best-of"
        raise RecipeError(f"answers to --prompt are not scored; leave out {other} or --prompt")
    if not prompt.strip():
        raise RecipeError("the text of --prompt is empty; give at least one word")


def _prompt_row(recipe: Recipe, prompt: str) -> dict[str, str]:
    """Return a problem with the user's text, in the field that the team reads."""
    from collab.runtime.fields import fields_of

    fields = fields_of(recipe)
    if not fields.is_text_named:
        raise RecipeError(
            f"no template of the team '{recipe.team.name}' reads the text of --prompt (fields that"
            f" it reads: {', '.join(fields.known) or 'none'}); use a suite or a file with --task"
        )
    return {fields.text: prompt}


def _show_plan(recipe: Recipe, addresses: list[str], *, json: bool, with_recipe: bool) -> None:
    from collab.cli.plan import plan_of, show_counts
    from collab.recipe.writing import dump_recipe
    from collab.runtime.problems import find_problems

    plan = asyncio.run(plan_of(*find_problems(recipe, addresses)))
    if json:
        print(dumps(plan.data()))
        return
    page = open_page()
    if with_recipe:
        page.blocks([Block("effective recipe", dump_recipe(plan.recipe), "yaml")])
        page.line()
    show_counts(page, plan)


def _run(
    recipe: Recipe,
    addresses: list[str],
    out: Path | None,
    *,
    json: bool,
    require_solved: bool,
    combine: bool,
) -> int:
    from collab.cli.live.running import exit_status, open_view, run_with_view
    from collab.cli.plan import prepare_run
    from collab.runs.about import new_run_path
    from collab.runs.atomic import write_atomically
    from collab.runs.layout import BEST

    options.set_up_tracing()
    recipe, problems = prepare_run(recipe, addresses)
    if require_solved:
        recipe.check_scored()
    folder = out or new_run_path(recipe.team.name)
    view = open_view(json=json)
    finished = run_with_view(recipe, problems, out=folder, view=view)
    status = exit_status(finished, require_solved=require_solved)
    if combine and finished.status == "done":
        from collab.probe.best_of import best_of

        bests = asyncio.run(best_of(recipe, problems, finished.episodes))
        write_atomically(folder / BEST, "".join(f"{best.model_dump_json()}\n" for best in bests))
        for best in bests:
            view.show(best)
        solved = sum(bool(best.score.solved) for best in bests)
        if require_solved and status == 1 and solved == len(problems):
            return 0
    return status
