"""`collab study`."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from collab.cli.options import JSON, TRUST, argument, consent, flag, option
from collab.cli.screen.page import open_page
from collab.runs.layout import STUDIES
from collab.signals import INTERRUPTED_STATUS

if TYPE_CHECKING:
    from collab.cli.live.view import View
    from collab.study.study import Study


def command(
    study: Path = argument("STUDY", "A study file: trainers, suites, seeds and a budget."),
    *,
    retry: bool = flag("--retry", "Run the failed training runs of an earlier call again."),
    jobs: int | None = option(
        "--jobs", "N", "Number of parallel runs. Default: as many as the machine can handle.", min=1
    ),
    dry_run: bool = flag("--dry-run", "Check every run and show the plan, without training."),
    trust: bool = TRUST,
    json: bool = JSON,
    _: bool = typer.Option(False, "--resume", hidden=True),  # for scripts of 0.2.0
    out: Path | None = option("--out", "DIR", f"The study's folder. Default: {STUDIES}/NAME."),
) -> None:
    """Compare trainers at equal numbers of generated tokens.

    Each combination of trainer, suite and seed is trained separately, in its
    own process and folder. The study compares held-out returns at equal numbers
    of generated tokens. It shows curves, the tokens needed to get halfway to the
    best final return, and differences paired by suite and seed.

    With the same --out, the command continues where it stopped, and keeps its
    finished runs. It refuses a study that has changed, except for more seeds.

    Examples:
      collab study examples/studies/game.yaml --dry-run
      collab study examples/studies/game.yaml --jobs 2

    Exit status:
      0    success
      1    a training run failed
      2    bad usage
      130  interrupted
    """
    from collab.cli.live.running import open_view
    from collab.cli.screen.results import show_study_plan
    from collab.sandbox.sandbox import processor_count
    from collab.study.spec import cells_of, load_study
    from collab.study.study import Study, check_same_study, choose_jobs, free_memory
    from collab.trainers import make_plan

    spec = load_study(study, consent(trust))
    plans = {cell.name: make_plan(cell.read()[0]) for cell in cells_of(spec)}
    job_count = jobs or choose_jobs(list(plans.values()), processor_count(), free_memory())
    folder = out or Path(STUDIES) / study.stem
    if not dry_run:
        view = open_view(json=json)
        run = Study(spec, folder, retry=retry, trust=trust, emit=view.show)
        raise typer.Exit(_run(run, view, job_count, threads=max(1, processor_count() // job_count)))
    check_same_study(folder, spec)
    if json:
        memory = {name: plan.total for name, plan in plans.items()}
        plan = {"cells": memory, "jobs": job_count, "tokens": spec.tokens, "folder": str(folder)}
        print(dumps(plan))
    else:
        show_study_plan(open_page(), spec, plans, job_count, folder)


def _run(run: Study, view: View, jobs: int, threads: int) -> int:
    from collab.cli.live.running import GRACE_SECONDS, run_to_end
    from collab.study.page import write_page
    from collab.study.study import PROCESS_GRACE_SECONDS

    status = 0

    async def main() -> None:
        nonlocal status
        results = await run.run(jobs, threads)
        if page := write_page(results, run.folder.path):
            print(f"report: {page}", file=sys.stderr)
        status = int(results.status == "failed")

    def finish(_: object) -> str:
        run.close()
        return f"; continue with the same command and --out {run.folder.path}"

    # The training processes need their own grace time, to mark their runs as interrupted.
    grace = GRACE_SECONDS + PROCESS_GRACE_SECONDS
    return status if run_to_end(main(), view, finish, grace) else INTERRUPTED_STATUS
