"""Settings of an agent's tools in a recipe."""

import pytest
from pydantic import ValidationError

from collab.errors import RecipeError
from collab.recipe import load_recipe
from collab.recipe.team import AgentSpec


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
