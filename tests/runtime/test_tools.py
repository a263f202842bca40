"""Agents that call tools until they answer; a run states how they get their tools."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from support.tiny_words import CHAT, TOOL_CHAT, save_tiny

import collab
from collab.cli.plan import plan_of
from collab.cli.screen.episode import show_episode
from collab.cli.screen.page import PlainPage
from collab.errors import RecipeError
from collab.models import Call, Request
from collab.models.tool_text import UnreadableCall, plain_messages, read_calls
from collab.recipe.names import map_names
from collab.records import Episode, Message, ToolCall, ToolSpec
from collab.runtime.notes import tool_forms
from collab.runtime.problems import find_problems
from collab.runtime.prompt_check import check_prompts
from collab.sandbox import Sandbox
from collab.tools.base import function_tool, python_tool

TOOLS = '''\
import os
import time

from collab import CollabError

def double(n: int, times: int = 1) -> int:
    """Twice a number."""
    return n * 2 ** times

async def later(word: str) -> dict[str, str]:
    return {"word": word}

def fails() -> None:
    raise KeyError("nothing there")

def asks_a_team() -> None:
    raise CollabError("the episode failed")

def file_name(exists: bool) -> str:
    if exists:
        return os.fsdecode(b"a\\xe4")
    raise FileNotFoundError(os.fsdecode(b"a\\xe4"))

def sleeps() -> None:
    time.sleep(20)

def talks() -> str:
    return "x" * 100

def positional(n, /):
    return n
'''


UNRECORDABLE = '"\\ud800"', "[" * 100 + "]" * 100
"""Half of a surrogate pair, and too many levels."""


@pytest.fixture
def tools(project: Path) -> Path:
    (project / "tools.py").write_text(TOOLS)
    return project


def fence(name: str, **arguments: Any) -> str:
    return f"```tool\n{json.dumps({'name': name, 'arguments': arguments})}\n```"


def play(project: Path, names: list[str], answers: list[Any], *settings: str) -> Episode:
    """Agent `a` has tools and gives these answers; b says a word."""
    (project / "script.yaml").write_text(json.dumps({"a": answers, "b": ["Say w3."]}))
    all_settings = [f"agents.a.tools={json.dumps(names)}", *settings]
    team = collab.load("pair", model="scripted:script.yaml", settings=all_settings)
    return team.run("words/3").episode


def observed(episode: Episode, step: int) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in episode.decisions("a")[step].observation]


def test_agent_calls_tools_until_it_answers(tools: Path) -> None:
    answers = [fence("double", n=4), "So " + fence("double", n=1, times=3), "Say w3."]
    episode = play(tools, ["tools.py:double"], answers)
    assert episode.failure is None
    assert observed(episode, 1) == [("tool", "8")]
    assert observed(episode, 2) == [("tool", "8")]
    first = episode.decisions("a")[0].action
    assert first.tool_calls == (ToolCall(name="double", arguments={"n": 4}),)
    assert episode.turns[0].artifacts["a"] == "Say w3."
    assert episode.reward == 1.0
    assert Episode.model_validate_json(episode.model_dump_json()) == episode


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (fence("later", word="so"), '{"word":"so"}'),
        (fence("fails"), "KeyError: 'nothing there'"),
        (fence("double", n="four"), "the arguments do not fit: n: must be an integer"),
        (fence("double", m=4), "n: Missing"),
        (fence("halve", n=4), "there is no tool 'halve'; there is: double, later, fails"),
        (fence("asks_a_team"), "CollabError: the episode failed"),
        (fence("file_name", exists=True), r"a\udce4"),
        (fence("file_name", exists=False), r"FileNotFoundError: a\udce4"),
    ],
)
def test_tool_error_is_reported_to_the_agent(tools: Path, call: str, expected: str) -> None:
    functions = ("double", "later", "fails", "asks_a_team", "file_name")
    names = [f"tools.py:{name}" for name in functions]
    episode = play(tools, names, [call, "Say w3."])
    [(role, content)] = observed(episode, 1)
    assert role == "tool"
    assert expected in content
    assert episode.reward == 1.0


def test_unreadable_call_is_reported_to_the_agent(tools: Path) -> None:
    episode = play(tools, ["tools.py:double"], ['```tool\n{"name": \n```', "Say w3."])
    [(role, content)] = observed(episode, 1)
    assert role == "user"
    assert "could not be read: not JSON" in content


def test_truncated_call_is_reported_to_the_agent(tools: Path) -> None:
    truncated = {"text": '```tool\n{"name": "double", "argu', "finish_reason": "length"}
    episode = play(tools, ["tools.py:double"], [truncated, "Say w3."])
    message = "Your call of a tool was truncated at 32 tokens. Write a shorter one."
    assert observed(episode, 1) == [("user", message)]


@pytest.mark.parametrize("call", ['```tool\n{"name": \n```', fence("fails")])
def test_repeated_failing_call_ends_the_calls(tools: Path, call: str) -> None:
    names = ["tools.py:double", "tools.py:fails"]
    episode = play(tools, names, [call, fence("double", n=1), call, "Say w3."])
    message = "The same call failed 2 times. Give your answer now."
    assert observed(episode, 3)[-1] == ("user", message)
    assert episode.reward == 1.0


@pytest.mark.parametrize("last", ['Well. ```tool\n{"name": "dou', fence("double", n=1)])
def test_call_does_not_count_as_an_answer(tools: Path, last: str) -> None:
    limit = "agents.a.harness={use: tools, options: {calls: 1}}"
    episode = play(tools, ["tools.py:double"], [fence("double", n=2), last], limit)
    before = last.partition("```")[0].strip()
    assert episode.turns[0].artifacts["a"] == before
    show_episode(PlainPage(out := io.StringIO()), episode)
    assert (", no artifact" in out.getvalue()) == (not before)


def test_agent_must_answer_after_its_last_call(tools: Path) -> None:
    limit = "agents.a.harness={use: tools, options: {calls: 2}}"
    answers = [fence("double", n=1) + fence("double", n=2) + fence("double", n=3), "Say w3."]
    episode = play(tools, ["tools.py:double"], answers, limit)
    assert observed(episode, 1) == [
        ("tool", "2"),
        ("tool", "4"),
        ("tool", "Error: not called, since the limit of 2 calls is reached"),
        ("user", "You have made all of your 2 calls of tools. Give your answer now."),
    ]
    assert episode.reward == 1.0


def test_tool_call_is_stopped_at_its_time_limit(tools: Path) -> None:
    limit = "agents.a.harness={use: tools, options: {seconds: 0.05}}"
    episode = play(tools, ["tools.py:sleeps"], [fence("sleeps"), "Say w3."], limit)
    assert observed(episode, 1) == [
        ("tool", "Error: sleeps was stopped at its time limit of 0.05 s")
    ]


def test_long_result_is_truncated(tools: Path) -> None:
    limit = "agents.a.harness={use: tools, options: {characters: 10}}"
    episode = play(tools, ["tools.py:talks"], [fence("talks"), "Say w3."], limit)
    assert observed(episode, 1) == [("tool", "x" * 10 + "\n(cut: 10 of 100 characters)")]


@pytest.mark.parametrize(
    ("names", "settings", "why"),
    [
        (["pyton"], (), "did you mean 'python'"),
        (["tools.py:dubble"], (), "did you mean 'double'"),
        (["tools.py:positional"], (), "positional-only or variadic"),
        (["python", "python"], (), "two tools called 'python'"),
        (["python"], ("agents.a.harness={use: tools, options: {calls: 0}}",), "at least 1, got 0"),
    ],
)
def test_invalid_tools_are_refused(
    tools: Path, names: list[str], settings: tuple[str, ...], why: str
) -> None:
    with pytest.raises(RecipeError, match=why):
        play(tools, names, [], *settings)


def test_replay_calls_the_tools_again(tools: Path) -> None:
    (tools / "script.yaml").write_text(
        json.dumps({"a": [fence("double", n=4), "Say w3."], "b": ["Say w3."]})
    )
    settings = ['agents.a.tools=["tools.py:double"]']
    collab.load("pair", model="scripted:script.yaml", settings=settings).run("words/3", out="one")
    again = collab.load("pair", model="replay:one", settings=settings).run("words/3").episode
    assert observed(again, 1) == [("tool", "8")]
    assert again.reward == 1.0
    assert (tools / "one" / "functions" / "tools.py").is_file()


def test_a_dry_run_calls_no_tool(tools: Path) -> None:
    (tools / "script.yaml").write_text('{"a": [], "b": []}')
    (tools / "tools.py").write_text("def mark() -> None:\n    open('called', 'w').close()\n")
    settings = [
        'agents.a.tools=["tools.py:mark"]',
        'agents.a.prompt=\'<tool_call>{"name": "mark"}</tool_call>\'',
    ]
    team = collab.load("pair", task="words", model="echo", settings=settings)
    check_prompts(team.recipe, find_problems(team.recipe, ["words/0"])[1])
    assert not (tools / "called").exists()
    assert team.run("words/0").episode.failure is None
    assert (tools / "called").exists()


def test_tools_are_found_in_a_recipe() -> None:
    found: list[tuple[str, str]] = []

    def look(kind: str, key: str, text: str) -> str:
        found.append((kind, text))
        return text

    map_names({"agents": {"a": {"tools": ["python", "t.py:f", "shop.tools:buy"]}}}, look)
    assert found == [("file function", "t.py:f"), ("module function", "shop.tools:buy")]


def test_a_function_is_described_by_its_signature_and_docstring(tools: Path) -> None:
    spec = function_tool("tools.py:double").spec
    assert (spec.name, spec.description) == ("double", "Twice a number.")
    assert spec.parameters["properties"]["n"]["type"] == "integer"
    assert spec.parameters["required"] == ["n"]


def test_a_parameter_may_be_called_function(tools: Path) -> None:
    (tools / "plot.py").write_text("def plot(function: str): return function")
    tool = function_tool("plot.py:plot")
    assert asyncio.run(tool.answer({"function": "sin"}, seconds=60)) == "sin"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('so')\n1 + 1", "so\n2"),
        ("x = 3", "(nothing was printed)"),
        ("x = 1\nx / 0", "ZeroDivisionError: division by zero\nin line 2"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import os; os._exit(3)", "Error: the worker ended"),
        ("open('/etc/passwd').read()", "FileNotFoundError"),
    ],
)
def test_python_runs_in_the_sandbox(sandbox: Sandbox, code: str, expected: str) -> None:
    result = asyncio.run(python_tool(sandbox).answer({"code": code}, seconds=60))
    assert expected in result


def request_of(*messages: Message) -> Request:
    call = Call(task="t", sample=0, turn=0, round=0, agent="a")
    return Request(call=call, messages=messages, tools=(ToolSpec(name="double"),))


def test_tools_are_rendered_as_text_without_a_template() -> None:
    call = ToolCall(name="double", arguments={"n": 4})
    system, user, assistant, results = plain_messages(
        request_of(
            Message(role="system", content="Be brief."),
            Message(role="user", content="What is twice 4?"),
            Message(role="assistant", content=fence("double", n=4), tool_calls=(call,)),
            Message(role="tool", content="8", answers=call),
            Message(role="tool", content="9", answers=call),
            Message(role="user", content="Answer now."),
        )
    )
    assert system.content.startswith("Be brief.\n\nYou can call tools")
    assert "\ndouble: " in system.content
    assert (user.content, assistant.content) == ("What is twice 4?", fence("double", n=4))
    assert results.role == "user"
    assert results.content == "Result of double:\n8\n\nResult of double:\n9\n\nAnswer now."


def test_first_message_describes_the_tools_without_a_system_message() -> None:
    [user] = plain_messages(request_of(Message(role="user", content="What is twice 4?")))
    assert user.role == "user"
    assert user.content.endswith("What is twice 4?")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("no call", []),
        ('<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>', ["a"]),
        ('<tool_call>{"name": "a"}</tool_call><tool_call>{"name": "b"}', ["a", "b"]),
        ('```tool\n{"name": "a", "arguments": {"code": "```python\nx\n```"}}\n```', ["a"]),
        ('<think><tool_call>{"name": </think>so', []),
        ("```tools\n{}\n```", []),
    ],
)
def test_calls_are_read(text: str, names: list[str]) -> None:
    assert [call.name for call in read_calls(text)] == names


@pytest.mark.parametrize(
    "data",
    [
        *("{", "[]", '{"name": 3}', '{"name": "a b"}', '{"arguments": {}}', "[" * 100_000),
        *(f'{{"name": "a", "arguments": {{"n": {value}}}}}' for value in UNRECORDABLE),
    ],
)
def test_invalid_call_is_unreadable(data: str) -> None:
    with pytest.raises(UnreadableCall):
        read_calls(f"<tool_call>{data}</tool_call>")


WORDS = ["w3", "Say", "double"]
DOUBLE = "def double(n: int) -> int:\n    return 2 * n\n"
SETTINGS = ['agents.a.tools=["tools.py:double"]', "sampling.max_new_tokens=3"]


def load_pair(project: Path, model: str) -> collab.Team:
    (project / "tools.py").write_text(DOUBLE)
    return collab.load("pair", task="words", model=model, settings=SETTINGS)


@pytest.mark.parametrize(("chat", "form"), [(CHAT, "text"), (TOOL_CHAT, "template")])
def test_record_states_how_tools_are_presented(project: Path, chat: str, form: str) -> None:
    team = load_pair(project, str(save_tiny(project / "model", WORDS, chat=chat)))
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
    assert tool_forms(load_pair(project, model).recipe) == forms


def test_plan_states_how_tools_are_presented(project: Path) -> None:
    recipe = load_pair(project, "echo").recipe
    plan = asyncio.run(plan_of(*find_problems(recipe, ["words/0"])))
    line = "tools: a calls them as text, because its model's chat template has no tools"
    assert line in plan.outlook
