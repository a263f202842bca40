"""`collab eval`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from collab.cli import options
from collab.cli.options import flag, option
from collab.cli.screen.page import open_page
from collab.errors import RecipeError, UnknownName
from collab.evaluation import DEFAULT_K
from collab.runs.layout import EVALS
from collab.signals import INTERRUPTED_STATUS
from collab.wording import counted, drop_python_remedies

if TYPE_CHECKING:
    from collab.cli.live.view import View
    from collab.evaluation.evaluation import EvaluationRun
    from collab.evaluation.results import Results
    from collab.evaluation.selection import Selection
    from collab.evaluation.teams import EvaluatedTeam
    from collab.trust import Consent

_DEFAULT_K_TEXT = ",".join(map(str, DEFAULT_K))


def command(
    teams: list[str] = options.TEAMS,
    *,
    task: list[str] | None = options.task_option("run"),
    split: str | None = option(
        "--split", "NAME", "Evaluate only one split of the suite, e.g. validation."
    ),
    reward_from: str | None = option(
        "--reward-from",
        "TEAM",
        "Score all teams with this team's reward, if their rewards differ.",
    ),
    samples: int = options.samples_option("1", default=1),
    k: str | None = option(
        "--k",
        "K,K",
        f"Values of k for pass@k and best of k. Default: {_DEFAULT_K_TEXT} up to --samples.",
    ),
    greedy: bool = flag("--greedy", "Run one episode per task, at temperature 0."),
    select: Literal["examples"] | None = option(
        "--select",
        "examples",
        "Choose one of k samples by the prompt's tests and by agreement.",
    ),
    recombine: bool = flag(
        "--recombine", "With --select: also choose from combinations of the samples' parts."
    ),
    tester: str | None = option(
        "--tester", "AGENT", "With --select: also choose by the tests that this agent writes."
    ),
    budget: str | None = option(
        "--budget",
        "tokens:N",
        "Also report pass@k, or the choice of --select, among the samples within N tokens.",
    ),
    model: str | None = options.MODEL,
    settings: list[str] | None = options.SETTINGS,
    seed: int = options.seed_option("0", default=0),
    sandbox: options.Isolation | None = options.SANDBOX,
    workers: int | None = options.WORKERS,
    trust: bool = options.TRUST,
    json: bool = options.JSON,
    out: Path | None = options.out_option(f"{EVALS}/ID"),
    dry_run: bool = options.DRY_RUN,
) -> None:
    """Compare teams on the same tasks, with intervals.

    To evaluate a trained team, pass its run's folder. Each team is compared
    with the first one, paired by problem. Teams named NAME-seed-N are also
    averaged over seeds, and compared by seed. Speed is measured with the recipe's
    concurrency. To measure the latency of a single user, add --set
    concurrency=1 and use a new --out.

    With the same --out, the command continues where it stopped. It runs an
    episode again only if it failed, or if recipe, suite or collab have changed.

    Examples:
      collab eval coding-single coding --task humaneval --split test --samples 10
      collab eval coding runs/first --task humaneval/133-163 --greedy
      collab eval coding runs/first -t humaneval -n 10 --k 1,10 --out evals/first
      collab eval coding --task mine.jsonl --set team.turns=2 --json
      collab eval pro pro-single -t humaneval-pro -n 8 --select examples --recombine
      collab eval coding-single coding --task humaneval --samples 10 --dry-run

    Exit status:
      0    success
      1    the evaluation failed, or every episode of a team did
      2    bad usage, or a key, server or package is missing
      130  interrupted
    """
    from collab.cli.live.running import open_view
    from collab.evaluation.evaluation import EvaluationRun
    from collab.evaluation.selection import check_selectable
    from collab.evaluation.teams import choose_k, find_teams
    from collab.recipe.in_python import Overrides
    from collab.runs.about import new_run_path

    requested_k, selection = _parse_k(k), _parse_selection(select, recombine, tester, budget)
    overrides = Overrides(
        settings=options.with_sandbox(settings, sandbox, workers),
        keys={"samples": samples, "seed": seed, "model": model},
    )
    evaluated_teams = find_teams(
        teams,
        overrides,
        tasks=task or (),
        split=split,
        reward_from=reward_from,
        greedy=greedy,
        trust=options.consent(trust),
    )
    ks = choose_k(requested_k, evaluated_teams[0].recipe.samples)
    agents = [agent for team in evaluated_teams for agent in team.recipe.team.agents]
    if tester is not None and tester not in agents:
        raise UnknownName("agent", tester, agents)
    if dry_run:
        if selection is not None:
            for team in evaluated_teams:
                check_selectable(team.recipe, selection, team.problems)
        _show_plan(evaluated_teams, ks, options.consent(trust), json=json)
        return
    options.set_up_tracing()
    folder = out or new_run_path(evaluated_teams[0].suite.name, EVALS)
    evaluation = EvaluationRun(
        evaluated_teams, ks, selection=selection, out=folder, trust=options.consent(trust)
    )
    options.print_remarks(evaluation.check())
    _run_evaluation(evaluation, open_view(json=json))
    raise typer.Exit(_exit_status(evaluation.results()))


def _parse_k(text: str | None) -> list[int] | None:
    if text is None:
        return None
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(piece.isdecimal() for piece in pieces):
        raise RecipeError(f"--k takes numbers, e.g. {_DEFAULT_K_TEXT}, got '{text}'")
    return [int(piece) for piece in pieces]


def _parse_selection(
    select: str | None, recombine: bool, tester: str | None, budget: str | None
) -> Selection | None:
    from collab.evaluation.selection import Selection

    if select is None:
        values = {"--recombine": recombine, "--tester": tester}
        for name in (name for name, value in values.items() if value):
            raise RecipeError(f"{name} needs --select examples; add that, or leave out {name}")
        if budget is None:
            return None
    unit, _, number = (budget or "tokens:1").partition(":")
    if unit != "tokens" or not number.isdecimal() or not int(number):
        raise RecipeError(f"--budget takes tokens:N, e.g. tokens:1000, got '{budget}'")
    return Selection(
        examples=select is not None,
        recombine=recombine,
        tester=tester or "",
        budget=int(number) if budget else None,
    )


def _show_plan(
    teams: Sequence[EvaluatedTeam], ks: tuple[int, ...], trust: Consent, *, json: bool
) -> None:
    """Show the plan of all episodes, including those that are recorded already."""
    from collab.cli.plan import plan_of, show_counts
    from collab.evaluation.teams import name_team_in_errors
    from collab.trust import approve

    plans = []
    for team in teams:
        approve(team.question, trust)
        with name_team_in_errors(team, teams):
            plans.append(asyncio.run(plan_of(team.recipe, team.problems)))
    if json:
        by_team = {
            team.label: {**plan.data(), "notes": team.notes}
            for team, plan in zip(teams, plans, strict=True)
        }
        print(dumps({"suite": teams[0].suite.name, "k": ks, "teams": by_team}))
        return
    page = open_page()
    for team, plan in zip(teams, plans, strict=True):
        page.line((f"{team.label}: ", "bold"))
        show_counts(page, plan)
        for note in team.notes:
            page.line(f"note: {note}")
        page.line()
    page.line(
        f"in all: {counted(sum(plan.episodes for plan in plans), 'episode')}, at most"
        f" {sum(plan.new_tokens for plan in plans):,} new tokens in"
        f" {counted(sum(plan.calls for plan in plans), 'response')};"
        f" pass@k for k = {', '.join(map(str, ks))}"
    )


def _run_evaluation(evaluation: EvaluationRun, view: View) -> None:
    """Evaluate to the end; returns also after an interruption, and raises as `stream` does."""
    from collab.cli.live.running import run_to_end
    from collab.evaluation.results import EvaluationFinished

    async def main() -> None:
        stream = evaluation.stream(progress=view.progress, loading=view.show_loading)
        async with aclosing(stream) as events:
            async for event in events:
                view.show(event)

    def finish(_: object) -> str:
        evaluation.close()
        if evaluation.begun and evaluation.status != "done":
            view.show(EvaluationFinished(results=evaluation.results()))
        return f"; continue with the same command and --out {evaluation.out}"

    run_to_end(main(), view, finish)


def _exit_status(results: Results) -> int:
    """Return the exit status: 1 if every episode of a team failed, or 2 for a missing part."""
    from collab.cli.live.running import status_of_failures

    if results.status == "interrupted":
        return INTERRUPTED_STATUS
    status = 0
    for team in results.teams:
        if team.total_failure:
            print(f"error: {drop_python_remedies(team.total_failure)}", file=sys.stderr)
            status = status or status_of_failures(team.failures)
    return status
