"""`collab teams`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from collab.errors import RecipeError
from collab.wording import counted


def command(
    team: Annotated[
        str | None, typer.Argument(metavar="TEAM", help="A team's name or file.")
    ] = None,
) -> None:
    """List the teams, or show one with its agents and prompts.

    A team is one of the library's, or one of your project's folder agents/.

    [bold]Examples[/]
      collab teams
      collab teams coding
    """
    if team is None:
        _teams()
    else:
        _team(team)


def _teams() -> None:
    from collab.cli.screen.page import Column
    from collab.cli.screen.terminal import open_page
    from collab.recipe import read_recipe
    from collab.recipe.library import components

    rows: list[Any] = []
    for name, path in components("team"):
        try:
            spec = read_recipe(str(path))[0].team
        except RecipeError as error:
            rows.append([(name, "bold"), "-", "-", (f"broken: {error}", "red")])
            continue
        rows.append([(name, "bold"), ", ".join(spec.agents), str(spec.protocol), spec.description])
    columns = [Column("team"), Column("agents", wrap=True), Column("protocol", rank=1)]
    columns.append(Column("description", wrap=True))
    page = open_page()
    page.table(columns, rows)
    page.line(("its prompts: collab teams TEAM", "dim"))


def _team(name: str) -> None:
    from collab.cli.screen.page import Block
    from collab.cli.screen.terminal import open_page
    from collab.recipe import read_recipe

    spec = read_recipe(name)[0].team
    page = open_page()
    page.line((spec.name, "bold"), f": {spec.description}")
    turns = counted(spec.turns, "turn")
    sources = ", ".join(source.source for source in spec.feedback) or "none"
    page.line((f"protocol {spec.protocol}, {turns}, feedback {sources}, join {spec.join}", "dim"))
    for agent, role in spec.agents.items():
        fields = {"role": role.role, "prompt": role.prompt or "", "revise": role.revise}
        if spec.protocol.use == "discussion":
            fields["discuss"] = role.discuss
        fields |= role.templates
        page.line()
        page.line((agent, "bold"), (f", parser {role.parser}", "dim"))
        for field, template in fields.items():
            if template:
                page.blocks([Block(f"{agent}.{field}", template, "jinja")])
