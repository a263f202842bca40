"""Options that several commands share, and checks of their values."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.cli.arguments import completion
from collab.errors import UnknownName

if TYPE_CHECKING:
    from collab.trust import Consent, Question

Team = Annotated[
    str,
    typer.Argument(
        metavar="TEAM|RECIPE|FOLDER",
        help="A team's name, a team or recipe file, or the folder of a run.",
        autocompletion=completion.teams,
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
        autocompletion=completion.suites,
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
