"""Roles in a team: contributors, the entry agent, and helpers of code problems."""

from typing import Any

import pytest
from pydantic import ValidationError

from collab.recipe import TeamSpec
from collab.recipe.team import Roles


def team(join: str = "python", entry: str | None = None, **agents: dict[str, Any]) -> TeamSpec:
    written = {name: {"prompt": "x", **agent} for name, agent in agents.items()}
    return TeamSpec.model_validate({"join": join, "entry": entry, "agents": written})


CODE, TEXT = {"parser": "python"}, {"parser": "text"}
YES, NO = {"contributes": True}, {"contributes": False}


@pytest.mark.parametrize(
    ("spec", "roles"),
    [
        (team(aux=CODE, main=CODE), Roles(("aux", "main"), "main", ("aux",))),
        (team(main=CODE, aux=CODE), Roles(("main", "aux"), "main", ("aux",))),
        (team(a=CODE, b=CODE, c=CODE), Roles(("a", "b", "c"), "c", ("a", "b"))),
        (team(a=CODE, b=CODE, entry="a"), Roles(("a", "b"), "a", ("b",))),
        (team(planner=TEXT, coder=CODE, reviewer=TEXT), Roles(("coder",), "coder", ())),
        (team(main=TEXT, coder=CODE), Roles(("coder",), "coder", ())),
        (team(p=TEXT | YES, c=CODE), Roles(("p", "c"), "c", ())),
        (team(a=CODE, b=CODE | NO), Roles(("a",), "a", ())),
        (team(a=TEXT, b=TEXT), Roles(("a", "b"), "b", ("a",))),
        (team("text", a=TEXT, b=TEXT), Roles(("a", "b"), "b", ("a",))),
        (team("text", a=TEXT, b=TEXT | NO), Roles(("a",), "a", ())),
        (team("j.py:own", p=TEXT, c=CODE, r=TEXT), Roles(("p", "c", "r"), "c", ())),
    ],
)
def test_roles(spec: TeamSpec, roles: Roles) -> None:
    assert spec.roles == roles


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"a": CODE | NO}, "set 'contributes: true' for one"),
        ({"a": CODE, "b": TEXT, "entry": "b"}, "entry is 'b', which does not contribute"),
        ({"a": CODE, "entry": "z"}, "entry is 'z', which does not contribute"),
    ],
)
def test_a_team_without_a_writer_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        team(**wrong)
    assert message in str(caught.value)
