"""Options that several commands share: their completion, and checks of their values."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.errors import UnknownName

if TYPE_CHECKING:
    from collab.recipe.library import Kind
    from collab.trust import Consent, Question

debugging = False
"""The user wants to see where errors come from: `collab --debug COMMAND`."""


def complete_teams(incomplete: str) -> list[str]:
    """Teams by name, and folders of runs."""
    return [*_named("team", incomplete), *complete_runs(incomplete)]


def complete_suites(incomplete: str) -> list[str]:
    """Suites by name."""
    return _named("task", incomplete)


def complete_trainers(incomplete: str) -> list[str]:
    """Trainers by name."""
    return _named("trainer", incomplete)


def complete_runs(incomplete: str) -> list[str]:
    """Folders of runs, of evaluations and of their teams, where the commands leave them."""
    from collab.runs.layout import MARKS, PLACES

    folders = {
        str(file.parent)
        for place in PLACES
        for mark in MARKS
        for pattern in (f"*/{mark}", f"*/*/{mark}")
        for file in Path(place).glob(pattern)
    }
    return sorted(folder for folder in folders if folder.startswith(incomplete))


def _named(kind: Kind, incomplete: str) -> list[str]:
    from collab.recipe import library

    names = {name for name, _ in library.components(kind)}
    return sorted(name for name in names if name.startswith(incomplete))


Team = Annotated[
    str,
    typer.Argument(
        metavar="TEAM|RECIPE|FOLDER",
        help="A team's name, a team or recipe file, or the folder of a run.",
        autocompletion=complete_teams,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one key of the recipe, e.g. team.turns=2. Repeatable.",
    ),
]
Problems = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        metavar="ADDRESS",
        help="Problems: SUITE, SUITE/0-19, FILE.jsonl/3. Repeatable. Default: the recipe's.",
        autocompletion=complete_suites,
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="For agents without a model of their own: alias, hub name, folder, or"
        " ENGINE:NAME (see: collab models).",
    ),
]
SAMPLES = typer.Option("--samples", "-n", metavar="N", min=1, help="Episodes of each problem.")
SEED = typer.Option("--seed", metavar="N", min=0, help="Same seed, same tokens.")
Samples = Annotated[int | None, SAMPLES]
Seed = Annotated[int | None, SEED]
Json = Annotated[bool, typer.Option("--json", help="JSON lines on stdout, all else on stderr.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the record.")]
RunOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for the record. Default: runs/ID."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything; show the plan, and no more.")
]
ShowRecipe = Annotated[
    bool,
    typer.Option("--show-recipe", help="As --dry-run, with the whole recipe above the plan."),
]
Isolation = Annotated[
    str | None,
    typer.Option(
        "--sandbox",
        metavar="sealed|unsafe",
        help="How generated programs are run; unsafe isolates nothing. Default: sealed.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Generated programs that are judged at the same time. Default: one a processor.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run the functions of a recipe or folder from elsewhere; remembered for its contents.",
    ),
]


def consent(trust: bool) -> Consent:
    """The answer of the command line, or whoever sits at the terminal."""
    return trust or (_ask if sys.stdin.isatty() and sys.stderr.isatty() else False)


def _ask(question: Question) -> bool:
    print(question.text(), file=sys.stderr)
    told = "Read these files first. Go on, now and whenever they are the same?"
    return typer.confirm(told, default=False, err=True)


def one_of(kind: str, value: str, known: Sequence[str]) -> str:
    """The value, when it is among the known ones.

    Raises:
        UnknownName: it is not; with the nearest that is.
    """
    if value not in known:
        raise UnknownName(kind, value, known)
    return value


def suite_of(addresses: Sequence[str] | None) -> str | None:
    """The suite of the first of some problems' addresses, where any are given."""
    from collab.tasks import split_address

    return split_address(addresses[0])[0] if addresses else None


def with_sandbox(
    settings: Sequence[str] | None, isolation: str | None, workers: int | None = None
) -> list[str]:
    """The settings, with `--sandbox` and `--workers` among them."""
    found = list(settings or ())
    if isolation is not None:
        one_of("sandbox", isolation, ("sealed", "unsafe"))
        found.append(f"sandbox.isolation={isolation}")
    if workers is not None:
        found.append(f"sandbox.workers={workers}")
    return found


def send_spans() -> None:
    """Begin to send spans where the environment names a collector; note where that fails."""
    from collab.telemetry import set_up

    if trouble := set_up():
        print(f"note: {trouble}", file=sys.stderr)
