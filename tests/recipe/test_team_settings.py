"""The section `team` of a recipe: roles, the agents' tools, and the team's model."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from collab.errors import RecipeError
from collab.recipe import TeamSpec, load_recipe
from collab.recipe.model import TransformersSpec
from collab.recipe.team import AgentSpec, Roles


def team_of(join: str = "python", entry: str | None = None, **agents: dict[str, Any]) -> TeamSpec:
    written = {name: {"prompt": "x", **agent} for name, agent in agents.items()}
    return TeamSpec.model_validate({"join": join, "entry": entry, "agents": written})


CODE, TEXT = {"parser": "python"}, {"parser": "text"}
YES, NO = {"contributes": True}, {"contributes": False}


@pytest.mark.parametrize(
    ("spec", "roles"),
    [
        (team_of(aux=CODE, main=CODE), Roles(("aux", "main"), "main", ("aux",))),
        (team_of(main=CODE, aux=CODE), Roles(("main", "aux"), "main", ("aux",))),
        (team_of(a=CODE, b=CODE, c=CODE), Roles(("a", "b", "c"), "c", ("a", "b"))),
        (team_of(a=CODE, b=CODE, entry="a"), Roles(("a", "b"), "a", ("b",))),
        (team_of(planner=TEXT, coder=CODE, reviewer=TEXT), Roles(("coder",), "coder", ())),
        (team_of(main=TEXT, coder=CODE), Roles(("coder",), "coder", ())),
        (team_of(p=TEXT | YES, c=CODE), Roles(("p", "c"), "c", ())),
        (team_of(a=CODE, b=CODE | NO), Roles(("a",), "a", ())),
        (team_of(a=TEXT, b=TEXT), Roles(("a", "b"), "b", ("a",))),
        (team_of("text", a=TEXT, b=TEXT), Roles(("a", "b"), "b", ("a",))),
        (team_of("text", a=TEXT, b=TEXT | NO), Roles(("a",), "a", ())),
        (team_of("j.py:own", p=TEXT, c=CODE, r=TEXT), Roles(("p", "c", "r"), "c", ())),
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
        team_of(**wrong)
    assert message in str(caught.value)


def test_tools_select_the_tools_harness() -> None:
    assert AgentSpec(prompt="p", tools=("python",)).harness.use == "tools"
    assert AgentSpec(prompt="p").harness.use == "respond"
    custom = AgentSpec.model_validate({"prompt": "p", "tools": ["python"], "harness": "own.py:act"})
    assert custom.harness.use == "own.py:act"


def test_tools_with_a_harness_that_calls_none_are_refused() -> None:
    data = {"prompt": "p", "tools": ["python", "own.py:look"], "harness": "respond"}
    with pytest.raises(ValidationError, match=r"'respond' calls no tools.* python, own.py:look"):
        AgentSpec.model_validate(data)


def test_tools_harness_without_tools_is_refused() -> None:
    with pytest.raises(ValidationError, match="'tools' has no tools to call"):
        AgentSpec.model_validate({"prompt": "p", "harness": {"use": "tools"}})


@pytest.mark.parametrize(
    "setting", ["agents.main.harness=respond", "agents.main.harness={use: respond}"]
)
def test_changing_the_harness_does_not_silently_drop_tools(setting: str) -> None:
    with pytest.raises(RecipeError, match="set it to 'tools'"):
        load_recipe("coding-tools", settings=[setting])
    without = load_recipe("coding-tools", settings=[setting, "agents.main.tools=[]"])
    assert without.team.agents["main"].harness.use == "respond"


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({"mcp": "python server.py"}, r"word by word: \[python, server.py\]"),
        ({"mcp": []}, "mcp is empty"),
        ({"mcp": "http://me:pw@host/mcp"}, "has more than host"),
        ({"mcp": ["python", "s.py"], "key": "A_API_KEY"}, "key works with an address"),
        ({"mcp": "http://host/mcp", "environment": ["A"]}, "environment works with a command"),
        ({"mcp": "http://host/mcp", "key": "HOME"}, "_API_KEY"),
        ({"mcp": ["python"], "ony": ["f"]}, "did you mean 'only'"),
        ({"name": "python"}, "a tool is a name"),
        (3, "a tool is a name"),
    ],
)
def test_invalid_tool_server_is_refused(server: object, why: str) -> None:
    with pytest.raises(ValidationError, match=why) as caught:
        AgentSpec.model_validate({"prompt": "p", "tools": [server]})
    assert "pw" not in str(caught.value)


def test_tool_server_round_trips_through_json() -> None:
    tools = ["python", {"mcp": ["python", "server.py"], "only": ["double"]}]
    spec = AgentSpec.model_validate({"prompt": "p", "tools": tools})
    assert AgentSpec.model_validate(spec.model_dump(mode="json")) == spec


WRITTEN = """\
model: {engine: transformers, name: written-for, dtype: float32}
agents: {main: {prompt: hi}}
"""


@pytest.fixture
def written(here: Path) -> str:
    path = here / "mine.yaml"
    path.write_text(WRITTEN)
    return str(path)


def test_recipe_without_a_model_uses_the_team_model(written: str) -> None:
    model = load_recipe(written).model
    assert isinstance(model, TransformersSpec)
    assert (model.name, model.dtype) == ("written-for", "float32")


def test_a_fault_of_the_team_model_is_listed_once(here: Path) -> None:
    (here / "bad.yaml").write_text("model: {engine: echo, typo: 1}\nagents: {main: {prompt: hi}}\n")
    with pytest.raises(RecipeError, match=r"bad\.yaml: team\.model: unknown key 'typo'") as refused:
        load_recipe("bad.yaml")
    assert len(str(refused.value).splitlines()) == 1


def test_a_named_model_wins(written: str) -> None:
    assert load_recipe(written, model="echo").model.engine == "echo"
    changed = load_recipe(written, settings=["model.dtype=bfloat16"]).model
    assert isinstance(changed, TransformersSpec)
    assert (changed.name, changed.dtype) == ("written-for", "bfloat16")


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    ("start", "settings", "model"),
    [
        ("mine.yaml", ["team.model.name=other"], ("other", "float32")),
        ("mine.yaml", ["model.dtype=float16", "team.model.name=other"], ("other", "float16")),
        ("coding", ["team=mine.yaml"], ("written-for", "float32")),
        ("mine.yaml", ["team.model=a", "team.model.name=other"], ("other", "auto")),
    ],
)
def test_settings_choose_the_team_or_its_model(
    start: str, settings: list[str], model: tuple[str, str]
) -> None:
    used = load_recipe(start, settings=settings).model
    assert isinstance(used, TransformersSpec)
    assert (used.name, used.dtype) == model


def test_engines_of_vllm_are_found_beside_an_engine_with_options(here: Path) -> None:
    (here / "own.py").write_text("def open_it(spec):\n    raise NotImplementedError\n")
    own = {"engine": "own.py:open_it", "options": {"sizes": [1]}}
    vllm = "vllm:smollm2-135m"
    agents = {"a": {"model": own}, "b": {"model": vllm}, "c": {"model": vllm}}
    recipe = load_recipe({"team": {"agents": agents}})
    assert recipe.vllm_engines == [recipe.model_of("b")]
