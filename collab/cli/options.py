"""Options that several commands share, and checks of their values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from collab.errors import UnknownName

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one key of the recipe, e.g. team.turns=2. Repeatable.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON lines on stdout, all else on stderr.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the record.")]
Isolation = Annotated[
    str | None,
    typer.Option(
        "--judge",
        metavar="sealed|unsafe",
        help="How generated programs are run; unsafe isolates nothing. Default: sealed.",
    ),
]


def one_of(kind: str, value: str, known: Sequence[str]) -> str:
    """The value, when it is among the known ones.

    Raises:
        UnknownName: it is not; with the nearest that is.
    """
    if value not in known:
        raise UnknownName(kind, value, known)
    return value


def with_isolation(settings: Sequence[str] | None, isolation: str | None) -> list[str]:
    """The settings, with `--judge` as one of them."""
    if isolation is None:
        return list(settings or ())
    one_of("judge", isolation, ("sealed", "unsafe"))
    return [*(settings or ()), f"judge.isolation={isolation}"]
