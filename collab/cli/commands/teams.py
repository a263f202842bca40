"""`collab teams`."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.cli.options import JSON_LIST, argument
from collab.cli.screen.page import Block, open_page, show_components
from collab.cli.screen.streams import json_text
from collab.wording import counted

if TYPE_CHECKING:
    from collab.recipe import TeamSpec
    from collab.recipe.base import Spec

_SHOWN_KEYS = {"name", "description", "protocol", "turns", "feedback", "join", "agents"}
_TEMPLATE_KEYS = {"role", "prompt", "prefix", "revise", "discuss", "templates"}


def command(
    team: str | None = argument("TEAM", "A team's name or file.", default=None),
    json: bool = JSON_LIST,
) -> None:
    """List the teams, or show one with its agents and prompts.

    Teams come from the library and from your project's folder agents/.

    Examples:
      collab teams
      collab teams coding
    """
    from collab.recipe import read_recipe

    def row(path: Path) -> list[Any]:
        spec = read_recipe(str(path))[0].team
        return [list(spec.agents), spec.protocol.use, spec.description]

    if team is None:
        columns = ["team", "agents", "protocol", "description"]
        remark = "to show the prompts of a team: collab teams TEAM"
        show_components("team", columns, row, remark, json=json)
    elif json:
        print(json_text(read_recipe(team)[0].team))
    else:
        _show_team(read_recipe(team)[0].team)


def _show_team(spec: TeamSpec) -> None:
    page = open_page()
    page.line((spec.name, "bold"), f": {spec.description}")
    turns = counted(spec.turns, "turn")
    sources = ", ".join(source.source for source in spec.feedback) or "none"
    page.line((f"protocol {spec.protocol}, {turns}, feedback {sources}, join {spec.join}", "dim"))
    if settings := _settings(spec, _SHOWN_KEYS):
        page.line((settings, "dim"))
    for agent, role in spec.agents.items():
        fields = {"role": role.role, "prompt": role.prompt or "", "prefix": role.prefix}
        fields["revise"] = role.revise
        if spec.protocol.use == "discussion":
            fields["discuss"] = role.discuss
        fields |= role.templates
        page.line()
        page.line(
            (agent, "bold"), (f", {_settings(role, _TEMPLATE_KEYS, parser=role.parser)}", "dim")
        )
        for field, template in fields.items():
            if template:
                page.blocks([Block(f"{agent}.{field}", template, "jinja")])


def _settings(spec: Spec, omitted_keys: set[str], **always: str) -> str:
    """Return on one line what the file sets, other than the keys `omitted_keys`."""
    settings = always | spec.model_dump(mode="json", exclude=omitted_keys, exclude_unset=True)
    return ", ".join(f"{key} {_text(value)}" for key, value in settings.items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)
