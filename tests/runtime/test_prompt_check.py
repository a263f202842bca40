"""Checks of a team's prompts without its models, before any request."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.library import TEAMS, suite_of
from support.shares import one_in
from support.tiny_words import save_tiny

from collab.errors import ModelError, RecipeError
from collab.models.local.adapters import Adapters
from collab.models.weights import load_model
from collab.recipe import Recipe, load_recipe, load_task
from collab.recipe.library import library_root
from collab.recipe.model import TransformersSpec
from collab.runtime.problems import find_problems
from collab.runtime.prompt_check import (
    check_prompts,
    count_characters,
    is_first_prompt,
    max_episode_usage,
)
from collab.runtime.team import Team

WORDS = ("Say", "word", "long", "again")


def make(**team: Any) -> Recipe:
    agents = team.pop("agents", {"a": {"prompt": "{{ task.word }}"}, "b": {"prompt": "b"}})
    data: dict[str, Any] = {"model": "echo", "task": load_recipe("pair", task="words").task}
    data["team"] = {"name": "pair", "agents": agents, **team}
    return Recipe.model_validate(data)


def check(recipe: Recipe, address: str = "words/0") -> Any:
    recipe, problems = find_problems(recipe, [address])
    return check_prompts(recipe, problems)


@pytest.mark.parametrize("name", one_in(3, TEAMS))
def test_every_team_of_the_library_is_played(name: str) -> None:
    suite = f"{suite_of(name)}/0"
    is_game = load_task(suite_of(name)).environment is not None  # games define their own turns
    settings = [] if is_game else ["team.turns=2"]
    recipe, problems = find_problems(load_recipe(name, settings=settings), [suite])
    found = check_prompts(recipe, problems)
    assert {request.call.agent for request in found.requests} == set(recipe.team.agents)
    assert {0, 1} <= {request.call.turn for request in found.requests}
    assert found.warnings == ()


def test_a_protocol_without_an_end_is_refused(project: Path) -> None:
    Path("loop.py").write_text(
        "async def loop(turn):\n    while True:\n        await turn.together()\n"
    )
    with pytest.raises(RecipeError, match="give its loop a limit"):
        check(make(protocol="loop.py:loop"))


def test_others_and_feedback_have_placeholders(project: Path) -> None:
    agents = {
        "a": {"prompt": "{{ task.word }}", "revise": "{{ feedback[0] }}"},
        "b": {"prompt": "{{ others.a[0] }}", "revise": "{{ others['a'][0] }}{{ feedback[0] }}"},
    }
    recipe = make(agents=agents, protocol="sequential", turns=2, feedback=["no.py:tell"])
    found = check(recipe)
    places = [(r.call.turn, r.call.round, r.call.agent, is_first_prompt(r)) for r in found.requests]
    assert places == [(0, 0, "a", True), (0, 1, "b", False), (1, 0, "a", False), (1, 1, "b", False)]


def test_simulated_answers_have_the_maximum_length(project: Path) -> None:
    agents = {"a": {"prompt": "x"}, "b": {"prompt": "{{ others.a }}"}}
    recipe = make(agents=agents, protocol="sequential", sampling={"max_new_tokens": 1000})
    found = check(recipe)
    assert max_episode_usage(recipe, found.requests)[1] == 2000
    assert count_characters(found.requests[1]) > 3000


def test_calls_of_tools_count_as_responses(project: Path) -> None:
    harness = {"use": "tools", "options": {"calls": 3}}
    agents = {
        "a": {"prompt": "x", "tools": ["python"]},
        "b": {"prompt": "x", "tools": ["python"], "harness": harness},
        "c": {"prompt": "x"},
    }
    recipe = make(agents=agents, sampling={"max_new_tokens": 10})
    requests = check(recipe).requests
    assert max_episode_usage(recipe, requests) == (9 + 4 + 1, 140)


OWN = """\
async def moderated(turn, rounds=2):
    for _ in range(rounds):
        await turn.together(["b", "c"], "argue", sees="all", otherwise="{{ others | length }}")
    await turn.act("a", "prompt", sees="all")


async def chosen(turn):
    name = await turn.act("a")
    await turn.act(name if name in turn.agents or not name else 1 / 0 or "b")
"""


def test_custom_protocol_can_be_planned(project: Path) -> None:
    Path("own.py").write_text(OWN)
    agents = {
        "a": {"prompt": "{{ others.b }} {{ others.c }}"},
        "b": {"prompt": "b"},
        "c": {"prompt": "c", "templates": {"argue": "{{ others.keys() | join }}"}},
    }
    protocol = {"use": "own.py:moderated", "options": {"rounds": 3}}
    found = check(make(agents=agents, protocol=protocol))
    assert [r.call.agent for r in found.requests] == ["b", "c"] * 3 + ["a"]


@pytest.mark.parametrize("field", ["prompt", "revise", "discuss", "role"])
def test_unknown_template_field_is_refused(project: Path, field: str) -> None:
    agents = {"a": {"prompt": "a"}, "b": {"prompt": "b", field: "{{ task.wrod }}"}}
    recipe = make(agents=agents, protocol="discussion", turns=2)
    with pytest.raises(RecipeError, match=rf"team\.agents\.b\.{field}: .*'wrod'"):
        check(recipe)


def test_functions_of_the_users_are_not_called(project: Path) -> None:
    Path("own.py").write_text(
        "def parse(text): raise SystemExit\n"
        "def join(artifacts, problem): raise SystemExit\n"
        "def tell(outcome): raise SystemExit\n"
        "async def act(move): raise SystemExit\n"
    )
    agent = {"prompt": "a", "parser": "own.py:parse", "harness": "own.py:act"}
    recipe = make(agents={"a": agent}, join="own.py:join", turns=2, feedback=["own.py:tell"])
    assert len(check(recipe).requests) == 2


@pytest.mark.parametrize("source", ["static", "execution"])
def test_feedback_on_programs_is_refused_for_other_tasks(project: Path, source: str) -> None:
    recipe = make(turns=2, feedback=[source])
    message = (
        rf"feedback '{source}' reads programs, but words/0 is not a code problem.*self, expert"
    )
    with pytest.raises(RecipeError, match=message):
        check(recipe)
    with pytest.raises(RecipeError, match=message):
        Team(recipe).run("words/0", out="run")
    assert not Path("run").exists()
    assert check(make(turns=1, feedback=[source])).requests
    assert check(make(turns=2, feedback=[{"source": source, "required": False}])).requests


def test_unused_templates_are_warned_about(project: Path) -> None:
    agents: dict[str, Any] = {"a": {"prompt": "a", "discuss": "mine"}, "b": {"prompt": "b"}}
    agents["b"]["templates"] = {"rebutt": "no"}
    why = "is not used: protocol 'sequential' does not use it; leave it out, or choose a protocol"
    why += " that does"
    assert check(make(agents=agents, protocol="sequential")).warnings == (
        f"team.agents.a.discuss {why}",
        f"team.agents.b.templates.rebutt {why}",
    )
    agents["b"].pop("templates")
    assert check(make(agents=agents, protocol="discussion")).warnings == ()


def test_missing_adapter_is_refused(project: Path, tmp_path: Path) -> None:
    save_tiny(tmp_path / "tiny", WORDS)
    agents = {"a": {"prompt": "a", "adapter": "nowhere", "model": str(tmp_path / "tiny")}}
    with pytest.raises(RecipeError, match=r"adapter nowhere cannot be read.*adapter_config\.json"):
        check(make(agents=agents))


def test_adapter_of_another_model_is_refused(project: Path, tmp_path: Path) -> None:
    save_tiny(tmp_path / "tiny", WORDS)
    adapter = Path("agents/pocket-smollm2/aux")
    model = {"name": str(tmp_path / "tiny"), "device": "cpu"}
    agents = {"a": {"prompt": "a", "adapter": str(library_root() / adapter), "model": model}}
    found = r"its base is 'HuggingFaceTB/SmolLM2-135M-Instruct', with hidden size 576, not \d+; use"
    with pytest.raises(ModelError, match=found):
        check(make(agents=agents))
    with pytest.raises(ModelError, match=found):
        Adapters(load_model(tmp_path / "tiny", TransformersSpec(**model)), "tiny").name_of(
            str(library_root() / adapter)
        )


def long_words(folder: Path, long: set[int]) -> None:
    rows = [
        {"task_id": str(n), "word": "word " * (300 if n in long else 1), "answer": ""}
        for n in range(4)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "tasks" / "words.jsonl").write_text(text)


def test_prompts_that_are_too_long_are_named(project: Path, tmp_path: Path) -> None:
    model = str(save_tiny(tmp_path / "tiny", WORDS))  # its context is 256 tokens
    long_words(project, {1, 2})
    agents = {"a": {"prompt": "{{ task.word }}", "model": model}}
    recipe = make(agents=agents, sampling={"max_new_tokens": 20})
    [warning] = check(recipe, "words").warnings
    assert warning.startswith("agent 'a': 2 problems (words/1, words/2) cannot be run: a prompt of")
    with pytest.raises(RecipeError, match="agent 'a': a prompt of 303 tokens"):
        check(recipe, "words/1-2")


def test_max_new_tokens_beyond_the_context_is_refused(project: Path, tmp_path: Path) -> None:
    model = str(save_tiny(tmp_path / "tiny", WORDS))
    agents = {"a": {"prompt": "Say {{ task.word }}", "model": model}}
    recipe = make(agents=agents, sampling={"max_new_tokens": 300})
    with pytest.raises(RecipeError, match=r"set sampling\.max_new_tokens to 251 or less"):
        check(recipe)
    later = make(agents=agents, sampling={"max_new_tokens": 200}, turns=2)
    [warning] = check(later).warnings
    assert "might not fit if answers reach max_new_tokens" in warning


def test_long_episodes_get_fewer_problems(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, problems = find_problems(make(turns=4), ["words/0-3"])
    assert len({r.call.task for r in check_prompts(recipe, problems).requests}) == 4
    monkeypatch.setattr("collab.runtime.prompt_check.MAX_TOTAL_TURNS", 9)
    requests = check_prompts(recipe, problems).requests
    assert len({r.call.task for r in requests}) < 4
    assert {r.call.turn for r in requests} == {0, 1, 2, 3}


def test_only_the_longest_prompts_of_a_long_episode_are_checked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    monkeypatch.setattr(
        "collab.runtime.prompt_check.check_fits",
        lambda request, spec: checked.append(request.call.turn),
    )
    check(make(turns=9))
    assert sorted(checked) == [0, 0, 8, 8]


def test_a_run_has_at_most_a_million_episodes(project: Path) -> None:
    for samples, addresses in ((1_000_001, ["words/0"]), (500_001, ["words/0-1"])):
        recipe = make().model_copy(update={"samples": samples})
        with pytest.raises(RecipeError, match="more than 1,000,000 episodes"):
            find_problems(recipe, addresses)


def test_an_episode_has_at_most_1000_turns(project: Path) -> None:
    assert make(turns=1000).team.turns == 1000
    with pytest.raises(ValidationError, match="less than or equal to 1000"):
        make(turns=1001)
