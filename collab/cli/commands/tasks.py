"""`collab tasks`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import typer

from collab.cli.options import TRUST, argument, consent, flag
from collab.cli.screen.page import Piece, open_page, show_components
from collab.errors import RecipeError
from collab.wording import counted

if TYPE_CHECKING:
    from collab.tasks import Suite
    from collab.trust import Consent

_WIDTH = 100
"""Maximum number of characters of a problem's text in the list."""


def command(
    suite: str | None = argument("SUITE", "A suite's name or a data file.", default=None),
    trust: bool = TRUST,
    check: bool = flag("--check", "Run the conformance suite on the suite's environment."),
) -> None:
    """List the suites, or the problems of one suite.

    Suites come from the library, from your project's folder tasks/, or from a
    data file.

    Examples:
      collab tasks
      collab tasks humaneval
      collab tasks mine.jsonl
      collab tasks nim --check
    """
    if check:
        if suite is None:
            raise RecipeError("--check plays the games of a suite; specify the suite")
        _check(suite, consent(trust))
    elif suite is None:
        _suites()
    else:
        _problems(suite, consent(trust))


def _suites() -> None:
    from collab.recipe import documents

    def row(path: Path) -> list[Piece]:
        data = documents.read_mapping(path)
        origin = "environment" if "environment" in data else _source(data.get("source"))
        return [origin, str(data.get("description", ""))]

    columns = ["suite", "source", "description"]
    show_components("task", columns, row, "to list the problems of a suite: collab tasks SUITE")


def _source(source: Any) -> str:
    from collab.recipe.library import ORIGINS

    if not isinstance(source, dict):
        return ""
    for kind in ORIGINS:
        if origin := source.get(kind):
            return f"{kind} {origin.get('use', '') if isinstance(origin, dict) else origin}"
    return ""


def _problems(name: str, trust: Consent) -> None:
    from collab.recipe import about_rows, read_task
    from collab.tasks import open_suite, split_address
    from collab.trust import settle

    given, selection = split_address(name)
    spec, question = read_task(given)
    if selection:
        raise RecipeError(f"'{name}' selects problems; collab tasks takes a suite: {given}")
    settle(about_rows(spec, question), trust)
    suite = open_suite(spec)
    rows: list[list[Piece]] = [
        [problem.address, (_first_line(problem.public), "dim")] for problem in suite.select("")
    ]
    page = open_page()
    page.table(["address", "problem"], rows)
    splits = ", ".join(f"{spec.name}/{split} ({rows})" for split, rows in spec.splits.items())
    count = counted(len(suite), "problem")
    page.line((f"{count}{f'; splits: {splits}' if splits else ''}", "dim"))
    if suite.left_out:
        page.line((suite.left_out, "dim"))
    page.line((f"fields: {_fields(suite)}", "dim"))


def _fields(suite: Suite) -> str:
    """The fields of a suite's rows, with marks for hidden and rare ones."""
    counts = Counter(field for row in suite.rows for field in row)
    fields = []
    for field, count in counts.items():
        marks = ["hidden"] * (field in suite.spec.hidden)
        marks += [f"in {count} of {len(suite)}"] * (count < len(suite))
        fields.append(f"{field} ({', '.join(marks)})" if marks else field)
    return ", ".join(fields)


def _first_line(public: dict[str, Any]) -> str:
    """A line for a problem: its title, or the first line of its prompt or first text."""
    from collab.rewards.library import title_of

    if title := title_of(public):
        return title
    texts = [value for value in public.values() if isinstance(value, str)]
    lines = (
        str(public.get("title") or public.get("prompt") or next(iter(texts), ""))
        .strip()
        .splitlines()
    )
    return shorten(lines[0], _WIDTH, placeholder=" ...") if lines else ""


def _check(name: str, trust: Consent) -> None:
    """Play many games of a suite's first problem and show the results; exits 1 for a fault."""
    from collab.environments import environment_for
    from collab.environments.conformance import conform
    from collab.recipe import load_task
    from collab.runtime.game import options_of
    from collab.tasks import open_suite

    spec = load_task(name, trust=trust)
    if spec.environment is None:
        raise RecipeError(
            f"--check plays games, but '{spec.name}' is not one; choose a suite whose kind is"
            " environment"
        )
    make, fields = environment_for(spec.environment), options_of(spec, open_suite(spec).problem(0))
    make(fields)  # an unknown option raises its own error
    page, results = open_page(), conform(lambda: make(fields))
    for result in results:
        mark = ("no  ", "bold red") if result.fault else ("ok  ", "green")
        page.line(
            mark, result.check.rstrip("."), (f": {result.fault}" if result.fault else "", "red")
        )
    conforms = not any(result.fault for result in results)
    page.line((f"{spec.name} conforms" if conforms else f"{spec.name} does not conform", "bold"))
    raise typer.Exit(0 if conforms else 1)
