"""`collab tasks`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from json import dumps
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import typer

from collab.cli.options import JSON_LIST, TRUST, argument, consent, flag
from collab.cli.screen.page import Piece, open_page, show_components
from collab.cli.screen.streams import json_text
from collab.errors import RecipeError
from collab.wording import counted

if TYPE_CHECKING:
    from collab.tasks import Suite
    from collab.trust import Consent

_MAX_LINE_CHARACTERS = 100
"""Maximum number of characters of a problem's text in the list."""
_LISTED_PROBLEMS = 20
"""Number of problems in the list without --all."""
_MAX_EXTENDS = 8


def command(
    suite: str | None = argument("SUITE", "A suite's name or a data file.", default=None),
    trust: bool = TRUST,
    every: bool = flag(
        "--all", f"List all problems of the suite, not only the first {_LISTED_PROBLEMS}."
    ),
    json: bool = JSON_LIST,
    check: bool = flag("--check", "Run the conformance suite on the suite's environment."),
) -> None:
    """List the suites, or the problems of one suite.

    Suites come from the library, from your project's folder tasks/, or from a
    data file.

    Examples:
      collab tasks
      collab tasks humaneval --all
      collab tasks mine.jsonl
      collab tasks nim --check
    """
    if check:
        if suite is None:
            raise RecipeError("--check needs a suite: collab tasks nim --check")
        _check_environment(suite, consent(trust), json=json)
    elif suite is None:
        show_components(
            "task",
            ["suite", "source", "needs", "description"],
            _suite_row,
            "needs: the extra to install, e.g. pip install 'collab-agents[hub]'",
            "to list the problems of a suite: collab tasks SUITE",
            json=json,
        )
    else:
        _list_problems(suite, consent(trust), every=every, json=json)


def _suite_row(path: Path) -> list[str]:
    """Return a suite's source, the extra that it needs, and its description.

    The suites that it extends are followed up to one with a source.
    """
    from collab.recipe.documents import read_mapping
    from collab.recipe.library import find_component

    data = read_mapping(path)
    for _ in range(_MAX_EXTENDS):
        if "extends" not in data or _describe_source(data)[0]:
            break
        others = {key: value for key, value in data.items() if key not in ("extends", "source")}
        beside = path.parent / (name := str(data["extends"]))
        path = beside if beside.is_file() else find_component("task", name)
        data = {**read_mapping(path), **others}
    return [*_describe_source(data), str(data.get("description", ""))]


def _describe_source(data: dict[str, Any]) -> tuple[str, str]:
    """Return the source of a suite's rows, and the extra that it needs."""
    from collab.recipe.library import FAMILIES, ORIGINS

    if "environment" in data:
        return "environment", ""
    source = data.get("source")
    source = source if isinstance(source, dict) else {}
    for kind in ORIGINS:
        if origin := source.get(kind):
            name = str(origin.get("use", "") if isinstance(origin, dict) else origin)
            needs = "hub" if kind == "hub" else name.replace("_", "-") if name in FAMILIES else ""
            return f"{kind} {name}", needs
    return "", ""


def _list_problems(name: str, trust: Consent, *, every: bool, json: bool) -> None:
    from collab.recipe import about_rows, read_task
    from collab.tasks import open_suite, split_address
    from collab.trust import approve

    suite_name, selection = split_address(name)
    spec, question = read_task(suite_name)
    if selection:
        raise RecipeError(f"'{name}' selects problems; collab tasks takes a suite: {suite_name}")
    approve(about_rows(spec, question), trust)
    suite = open_suite(spec)
    problems = suite.select("")
    if json:
        for problem in problems:
            print(json_text(problem))
        return
    shown = problems if every else problems[:_LISTED_PROBLEMS]
    rows: list[list[Piece]] = [
        [one.address, (_first_line(one.public, spec.id_field), "dim")] for one in shown
    ]
    page = open_page()
    page.table(["address", "problem"], rows)
    if more := len(problems) - len(shown):
        page.line((f"{more:,} more; --all lists them", "dim"))
    splits = ", ".join(f"{spec.name}/{split} ({rows})" for split, rows in spec.splits.items())
    count = counted(len(suite), "problem")
    page.line((f"{count}{f'; splits: {splits}' if splits else ''}", "dim"))
    if suite.left_out:
        page.line((suite.left_out, "dim"))
    page.line((f"fields: {_describe_fields(suite)}", "dim"))


def _describe_fields(suite: Suite) -> str:
    """Return the fields of a suite's rows, with marks for hidden and rare ones."""
    counts = Counter(field for row in suite.rows for field in row)
    fields = []
    for field, count in counts.items():
        marks = ["hidden"] * (field in suite.spec.hidden)
        marks += [f"in {count} of {len(suite)}"] * (count < len(suite))
        fields.append(f"{field} ({', '.join(marks)})" if marks else field)
    return ", ".join(fields)


def _first_line(public: dict[str, Any], id_field: str) -> str:
    """Return a problem's title, or the first line of its prompt or first text but the id."""
    from collab.rewards.library import title_of

    texts = [value for key, value in public.items() if isinstance(value, str) and key != id_field]
    text = public.get("title") or public.get("prompt") or next(iter(texts), "")
    line = title_of(public) or next(iter(str(text).strip().splitlines()), "")
    return shorten(line, _MAX_LINE_CHARACTERS, placeholder=" ...")


def _check_environment(name: str, trust: Consent, *, json: bool) -> None:
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
        fault = (f": {result.fault}" if result.fault else "", "red")
        if json:
            print(dumps(asdict(result)))
        else:
            page.line(mark, result.check.rstrip("."), fault)
    conforms = not any(result.fault for result in results)
    if not json:
        verdict = "conforms" if conforms else "does not conform"
        page.line((f"{spec.name} {verdict}", "bold"))
    raise typer.Exit(0 if conforms else 1)
