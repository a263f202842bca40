"""`collab study`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.cli.options import Json, Trust, consent

if TYPE_CHECKING:
    from collab.study.spec import StudySpec
    from collab.trainers import Plan


StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY.yaml", help="Trainers, suites, seeds and a budget.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on: what is done stays, what was begun goes on.")
]
Retry = Annotated[
    bool, typer.Option("--retry", help="With --resume: also what failed, from where it was.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", metavar="N", min=1, help="Runs at once. Default: what the machine bears."
    ),
]
StudyDryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check every run; show what would be trained.")
]
StudyOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The study's folder. Default: studies/NAME."),
]


def command(
    study: StudyFile,
    *,
    resume: Resume = False,
    retry: Retry = False,
    jobs: Jobs = None,
    dry_run: StudyDryRun = False,
    trust: Trust = False,
    json: Json = False,
    out: StudyOut = None,
) -> None:
    """Train with several trainers at equal tokens, and compare them.

    Every trainer, suite and seed is a run of collab train in its own process
    and its own folder below the study's. Held-out returns are compared at equal marks
    of generated tokens: curves, tokens to a level, differences paired by seed.

    [bold]Examples[/]
      collab study examples/studies/game.yaml --dry-run
      collab study examples/studies/game.yaml --jobs 2
      collab study examples/studies/game.yaml --resume

    Exit status: 0 done, 1 a run failed, 2 bad usage, 130 interrupted. What was
    done is kept in every case.
    """
    from collab.errors import RecipeError
    from collab.study.spec import cells_of, load_study
    from collab.study.study import cores, free_memory, jobs_for
    from collab.trainers import make_plan

    if retry and not resume:
        raise RecipeError("--retry goes with --resume: it says what to do with runs that failed")
    spec = load_study(study, consent(trust))
    plans = {cell.name: make_plan(cell.read()[0]) for cell in cells_of(spec)}
    many = jobs or jobs_for(list(plans.values()), cores(), free_memory())
    folder = out or Path("studies") / study.stem
    if dry_run:
        _show_plan(spec, plans, many, folder, json=json)
        return
    threads = max(1, cores() // many)
    raise typer.Exit(
        _run(spec, folder, many, threads, resume=resume, retry=retry, trust=trust, json=json)
    )


def _show_plan(
    spec: StudySpec, plans: dict[str, Plan], jobs: int, folder: Path, *, json: bool
) -> None:
    from json import dumps

    from collab.cli.screen.study import show_plan
    from collab.cli.screen.terminal import open_page

    if json:
        memory = {name: plan.total for name, plan in plans.items()}
        found = {"cells": memory, "jobs": jobs, "tokens": spec.tokens, "folder": str(folder)}
        print(dumps(found))
    else:
        show_plan(open_page(), spec, plans, jobs, folder)


def _run(
    spec: StudySpec,
    folder: Path,
    jobs: int,
    threads: int,
    *,
    resume: bool,
    retry: bool,
    trust: bool,
    json: bool,
) -> int:
    import asyncio

    from collab.cli.live.playing import Interruption
    from collab.cli.live.studying import LiveStudy, StudyReport
    from collab.cli.live.views import open_view
    from collab.study.page import write_page
    from collab.study.study import Study

    view = open_view(StudyReport, LiveStudy, json=json)
    run = Study(spec, folder, resume=resume, retry=retry, trust=trust, emit=view.see)

    async def main() -> int:
        with Interruption(run.leave) as interruption:
            try:
                results = await run.run(jobs, threads)
            except asyncio.CancelledError:
                if not interruption.happened:
                    raise
                return 130
        if page := write_page(results, folder):
            print(f"report: {page}", file=sys.stderr)
        return int(results.status == "failed")

    try:
        status = asyncio.run(main())
    finally:
        view.close()
    if status == 130:
        print(f"interrupted; go on with --resume (in {folder})", file=sys.stderr)
    return status
