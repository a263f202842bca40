"""`collab eval`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.cli.options import (
    SAMPLES,
    SEED,
    DryRun,
    Isolation,
    Json,
    ModelName,
    Problems,
    Settings,
    Trust,
    Workers,
    complete_teams,
    consent,
    with_sandbox,
)
from collab.errors import RecipeError

if TYPE_CHECKING:
    from collab.evaluation.selection import Selection
    from collab.evaluation.teams import EvaluatedTeam
    from collab.trust import Consent


Teams = Annotated[
    list[str],
    typer.Argument(
        metavar="TEAM|RECIPE|RUN...",
        help="Teams' names, team or recipe files, folders of runs and of training runs.",
        autocompletion=complete_teams,
    ),
]
Split = Annotated[
    str | None,
    typer.Option("--split", metavar="NAME", help="A split that the suite names, e.g. train."),
]
RewardFrom = Annotated[
    str | None,
    typer.Option(
        "--reward-from",
        metavar="TEAM|RUN",
        help="The team whose reward scores all, if their rewards differ.",
    ),
]
Ks = Annotated[
    str | None,
    typer.Option(
        "--k",
        metavar="K,K",
        help="Of pass@k and the best of k. Default: those of 1,3,5,10 up to --samples.",
    ),
]
Greedy = Annotated[bool, typer.Option("--greedy", help="Every agent at temperature 0, one sample.")]
Select = Annotated[
    str | None,
    typer.Option(
        "--select",
        metavar="examples",
        help="Choose one program of k samples by the prompt's own tests, and by agreement.",
    ),
]
Recombine = Annotated[
    bool,
    typer.Option(
        "--recombine", help="With --select: choose from all combinations of the samples' parts too."
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="tokens:N",
        help="With --select: choose also among the samples that N new tokens per problem pay for.",
    ),
]
EvaluationOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for the record. Default: evals/ID."),
]


def command(
    teams: Teams,
    *,
    task: Problems = None,
    split: Split = None,
    reward_from: RewardFrom = None,
    samples: Annotated[int, SAMPLES] = 1,
    k: Ks = None,
    greedy: Greedy = False,
    select: Select = None,
    recombine: Recombine = False,
    budget: Budget = None,
    model: ModelName = None,
    settings: Settings = None,
    seed: Annotated[int, SEED] = 0,
    sandbox: Isolation = None,
    workers: Workers = None,
    trust: Trust = False,
    json: Json = False,
    out: EvaluationOut = None,
    dry_run: DryRun = False,
) -> None:
    r"""Compare teams on the same problems, with intervals.

    The folder of a run is a team as well: its recipe, with what was trained,
    is run again on the problems. Differences are to the first team, paired by
    problem; 95 % intervals allow for other problems of the same kind. Speed is
    that of all agents in 32 episodes at the same time; for the time that one
    user waits, give --set concurrency=1.

    Given the same --out, the command goes on where it stopped: episodes are
    played again only where they failed, or the recipe or the suite has changed.

    [bold]Examples[/]
      collab eval coding-single coding --task humaneval --split test --samples 10
      collab eval coding runs/first --task humaneval/133-163 --greedy
      collab eval coding runs/first -t humaneval -n 10 --k 1,10 --out evals/first
      collab eval coding --task mine.jsonl --set team.turns=2 --json
      collab eval pro pro-single -n 8 --k 1,4,8 --select examples --recombine
      collab eval coding-single coding --task humaneval --samples 10 --dry-run

    Exit status: 0 done, 1 the evaluation or every episode of a team failed,
    2 bad usage or something is missing (a key, a server, a package), 130
    interrupted.
    """
    from collab.evaluation.teams import choose_k, find_teams

    wanted, selection = _numbers(k), _selection(select, recombine, budget)
    evaluated_teams = find_teams(
        teams,
        tasks=task or (),
        split=split,
        reward_from=reward_from,
        samples=samples,
        seed=seed,
        greedy=greedy,
        model=model,
        settings=with_sandbox(settings, sandbox, workers),
        trust=consent(trust),
    )
    ks = choose_k(wanted, evaluated_teams[0].recipe.samples)
    if dry_run:
        _plan(evaluated_teams, ks, consent(trust), json=json)
        return
    raise typer.Exit(_evaluate(evaluated_teams, ks, selection, out, consent(trust), json=json))


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(piece.isdecimal() for piece in pieces):
        raise RecipeError(f"--k takes numbers, e.g. 1,3,5,10, got '{text}'")
    return [int(piece) for piece in pieces]


def _selection(select: str | None, recombine: bool, budget: str | None) -> Selection | None:
    from collab.evaluation.selection import Selection

    if select is None:
        if recombine or budget:
            given = "--recombine" if recombine else "--budget"
            raise RecipeError(f"{given} goes with --select examples, which is not given")
        return None
    if select != "examples":
        raise RecipeError(f"--select takes 'examples', got '{select}'")
    unit, _, number = (budget or "tokens:1").partition(":")
    if unit != "tokens" or not number.isdecimal() or not int(number):
        raise RecipeError(f"--budget takes tokens:N, e.g. tokens:1000, got '{budget}'")
    return Selection(recombine, int(number) if budget else None)


def _plan(
    teams: Sequence[EvaluatedTeam], ks: tuple[int, ...], trust: Consent, *, json: bool
) -> None:
    """Show what playing all of it would be, whatever of it is recorded already."""
    import asyncio
    from dataclasses import asdict
    from json import dumps

    from collab.cli.plan import plan_of, show_counts
    from collab.cli.screen.terminal import open_page
    from collab.trust import settle
    from collab.wording import counted

    plans = []
    for team in teams:
        settle(team.question, trust)
        plans.append(asyncio.run(plan_of(team.recipe, team.problems)))
    if json:
        told = {t.label: {**asdict(p), "notes": t.notes} for t, p in zip(teams, plans, strict=True)}
        print(dumps({"suite": teams[0].suite.name, "k": ks, "teams": told}))
        return
    page = open_page()
    for team, plan in zip(teams, plans, strict=True):
        page.line((f"{team.label}: ", "bold"))
        show_counts(page, plan, team.recipe)
        for note in team.notes:
            page.line(f"note: {note}")
        page.line()
    page.line(
        f"in all: {counted(sum(plan.episodes for plan in plans), 'episode')}, at most"
        f" {sum(plan.new_tokens for plan in plans):,} new tokens in"
        f" {counted(sum(plan.calls for plan in plans), 'response')};"
        f" pass@k for k = {', '.join(map(str, ks))}"
    )


def _evaluate(
    teams: list[EvaluatedTeam],
    ks: tuple[int, ...],
    selection: Selection | None,
    out: Path | None,
    trust: Consent,
    *,
    json: bool,
) -> int:
    from collab.cli.live.evaluating import (
        EvaluationReport,
        LiveEvaluation,
        exit_status,
        follow,
    )
    from collab.cli.live.views import open_view
    from collab.cli.options import send_spans
    from collab.cli.plan import warn
    from collab.evaluation.evaluation import EvaluationRun as Evaluation
    from collab.runs.about import new_run_id

    send_spans()
    folder = out or Path("evals") / new_run_id(teams[0].suite.name)
    evaluation = Evaluation(teams, ks, selection=selection, out=folder, trust=trust)
    warn(evaluation.check())
    follow(evaluation, open_view(EvaluationReport, LiveEvaluation, json=json))
    return exit_status(evaluation.results())
