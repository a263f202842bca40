"""`collab tasks SUITE --check`: the conformance suite on one environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from collab.errors import RecipeError

if TYPE_CHECKING:
    from collab.trust import Consent


def check(name: str, trust: Consent) -> None:
    """Play many games of a suite's first problem, tell what was found, and exit 1 for a fault."""
    from collab.cli.screen.terminal import open_page
    from collab.environments import environment_for
    from collab.environments.conformance import conform
    from collab.recipe import load_task
    from collab.runtime.game import options_of
    from collab.tasks import open_suite

    spec = load_task(name, trust=trust)
    if spec.environment is None:
        raise RecipeError(
            f"--check plays games, and '{spec.name}' is no environment; name one whose kind is"
            " environment"
        )
    make, fields = environment_for(spec.environment), options_of(spec, open_suite(spec).problem(0))
    make(fields)  # an option that it does not take is told as what it is
    page, found = open_page(), conform(lambda: make(fields))
    for told in found:
        mark = ("no  ", "bold red") if told.fault else ("ok  ", "green")
        page.line(mark, told.check.rstrip("."), (f": {told.fault}" if told.fault else "", "red"))
    conforms = not any(told.fault for told in found)
    page.line((f"{spec.name} conforms" if conforms else f"{spec.name} does not conform", "bold"))
    raise typer.Exit(0 if conforms else 1)
