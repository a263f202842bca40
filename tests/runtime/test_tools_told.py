"""Runs state how agents get their tools: chat template, text, or the service."""

import asyncio
import json
from pathlib import Path

import pytest
from support.tiny_words import CHAT, TOOL_CHAT, save_tiny

import collab
from collab.cli.plan import plan_of
from collab.runtime.notes import tool_forms
from collab.runtime.problems import find_problems

WORDS = ["w3", "Say", "double"]
TOOL = "def double(n: int) -> int:\n    return 2 * n\n"
SETTINGS = ['agents.a.tools=["tools.py:double"]', "sampling.max_new_tokens=3"]


def load(project: Path, model: str) -> collab.Team:
    (project / "tools.py").write_text(TOOL)
    return collab.load("pair", task="words", model=model, settings=SETTINGS)


@pytest.mark.parametrize(("chat", "form"), [(CHAT, "text"), (TOOL_CHAT, "template")])
def test_record_states_how_tools_are_presented(project: Path, chat: str, form: str) -> None:
    team = load(project, str(save_tiny(project / "model", WORDS, chat=chat)))
    episode = team.run("words/0", out="run").episode
    assert episode.failure is None
    assert json.loads(Path("run/run.json").read_text())["tools"] == {"a": form}


@pytest.mark.parametrize(
    ("model", "forms"),
    [
        ("anthropic:claude-sonnet-4-6", {"a": "service"}),
        ("openai:http://localhost:1/v1#m", {"a": "service"}),
        ("echo", {"a": "text"}),
    ],
)
def test_hosted_and_prepared_models_have_a_fixed_tool_format(
    project: Path, model: str, forms: dict[str, str]
) -> None:
    assert tool_forms(load(project, model).recipe) == forms


def test_plan_states_how_tools_are_presented(project: Path) -> None:
    recipe = load(project, "echo").recipe
    plan = asyncio.run(plan_of(*find_problems(recipe, ["words/0"])))
    line = "tools: a calls them as text, because its model's chat template has no tools"
    assert line in plan.outlook
