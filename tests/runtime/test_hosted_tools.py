"""Agents with tools on hosted models, in the service's own format."""

import json
from pathlib import Path
from typing import Any

import pytest
from support import claude_server, openai_server
from support.claude_server import ClaudeServer
from support.openai_server import OpenAIServer
from support.service import status

import collab
from collab.records import Episode

TOOL = 'def double(n: int) -> int:\n    """Twice a number."""\n    return 2 * n\n'
LIMIT = "agents.a.harness={use: tools, options: {calls: 1}}"


@pytest.fixture
def double(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-0123456789")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (project / "tools.py").write_text(TOOL)
    return project


def play(engine: str, url: str, *settings: str) -> Episode:
    model = json.dumps({"engine": engine, "name": "qwen", "base_url": url})
    all_settings = ['agents.a.tools=["tools.py:double"]', f"agents.a.model={model}", *settings]
    episode = collab.load("pair", model="echo", settings=all_settings).run("words/3").episode
    assert episode.failure is None
    return episode


def results(episode: Episode) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in episode.decisions("a")[1].observation]


def test_openai_server_receives_tools_in_its_own_fields(double: Path) -> None:
    behaviors = openai_server.ask_for("double", '{"n": 4}'), openai_server.answer("Say w3.")
    with OpenAIServer(*behaviors) as server:
        episode = play("openai", server.base_url)
    first, second = server.bodies
    [tool] = first["tools"]
    assert (tool["type"], tool["function"]["name"]) == ("function", "double")
    assert tool["function"]["parameters"]["required"] == ["n"]
    assert results(episode) == [("tool", "8")]
    *_, call_message, tool_message = second["messages"]
    [call] = call_message["tool_calls"]
    assert (call["id"], json.loads(call["function"]["arguments"])) == ("call_1", {"n": 4})
    assert tool_message == {"role": "tool", "tool_call_id": "call_1", "content": "8"}
    assert "tool_choice" not in second
    assert episode.turns[0].artifacts["a"] == "Say w3."


def test_call_without_an_id_is_sent_back_with_its_result(double: Path) -> None:
    behaviors = openai_server.ask_for("double", "{}", call=""), openai_server.answer("Say w3.")
    with OpenAIServer(*behaviors) as server:
        play("openai", server.base_url)
    *_, call_message, tool_message = server.bodies[1]["messages"]
    [call] = call_message["tool_calls"]
    assert tool_message["tool_call_id"] == call["id"] != ""


@pytest.mark.parametrize("place", [{"index": 0}, {}])
def test_calls_of_a_server_that_does_not_number_them_are_kept_apart(
    double: Path, place: dict[str, int]
) -> None:
    """Ollama numbers all calls 0, and other servers none."""

    def twice(handler: Any, server: Any, body: dict[str, Any]) -> None:
        server.start(handler)
        for n in (4, 5):
            function = {"name": "double", "arguments": f'{{"n": {n}}}'}
            server.chunk(handler, {"tool_calls": [{**place, "id": f"c{n}", "function": function}]})
        server.end(handler, "tool_calls", None)

    with OpenAIServer(twice, openai_server.answer("Say w3.")) as server:
        episode = play("openai", server.base_url)
    assert results(episode) == [("tool", "8"), ("tool", "10")]


def test_call_truncated_before_its_arguments_is_not_made(double: Path) -> None:
    def truncated(handler: Any, server: Any, body: dict[str, Any]) -> None:
        server.start(handler)
        call = {"index": 0, "id": "call_1", "function": {"name": "double", "arguments": ""}}
        server.chunk(handler, {"tool_calls": [call]})
        server.end(handler, "length", None)

    with OpenAIServer(truncated, openai_server.answer("Say w3.")) as server:
        [(_, content)] = results(play("openai", server.base_url))
    assert content.startswith("Your call of a tool was truncated")


def test_claude_receives_tools_in_its_own_fields(double: Path) -> None:
    behaviors = claude_server.ask_for("double", '{"n": 4}'), claude_server.answer("Say w3.")
    with ClaudeServer(*behaviors) as server:
        episode = play("anthropic", server.url, LIMIT)
    first, second = server.bodies
    [tool] = first["tools"]
    assert tool["name"] == "double"
    assert tool["input_schema"]["properties"]["n"]["type"] == "integer"
    _, call_message, tool_message = second["messages"]
    assert call_message["content"] == [
        {"type": "text", "text": "I ask."},
        {"type": "tool_use", "id": "toolu_1", "name": "double", "input": {"n": 4}},
    ]
    result, limit = tool_message["content"]
    assert tool_message["role"] == "user"
    assert (result["type"], result["tool_use_id"], result["content"]) == (
        "tool_result",
        "toolu_1",
        "8",
    )
    assert "Give your answer now." in limit["text"]
    assert second["tool_choice"] == {"type": "none"}
    assert results(episode)[0] == ("tool", "8")


def test_openai_server_must_answer_at_the_call_limit(double: Path) -> None:
    behaviors = openai_server.ask_for("double", '{"n": 4}'), openai_server.answer("Say w3.")
    with OpenAIServer(*behaviors) as server:
        play("openai", server.base_url, LIMIT)
    assert server.bodies[1]["tool_choice"] == "none"


@pytest.mark.parametrize("arguments", ['{"n": 4', "[4]", f'{{"n": {"[" * 900}{"]" * 900}}}'])
def test_invalid_tool_arguments_are_reported_to_the_agent(double: Path, arguments: str) -> None:
    behaviors = openai_server.ask_for("double", arguments), openai_server.answer("Say w3.")
    with OpenAIServer(*behaviors) as server:
        episode = play("openai", server.base_url)
    [(role, content)] = results(episode)
    assert role == "user"
    assert "could not be read" in content


def test_server_without_tool_support_gets_tools_as_text(double: Path) -> None:
    def refusing(handler: Any, server: Any, body: dict[str, Any]) -> None:
        if "tools" in body:
            message = '"auto" tool choice requires --enable-auto-tool-choice'
            status(400, "BadRequestError", message)(handler, server, body)
            return
        has_result = any("Result of double:\n8" in m["content"] for m in body["messages"])
        call = '```tool\n{"name": "double", "arguments": {"n": 4}}\n```'
        openai_server.answer("Say w3." if has_result else call)(handler, server, body)

    with OpenAIServer(refusing) as server:
        episode = play("openai", server.base_url)
    assert results(episode) == [("tool", "8")]
    assert [("tools" in body) for body in server.bodies] == [True, False, False]
    assert episode.turns[0].artifacts["a"] == "Say w3."
