"""Agents that call tools of an MCP server in a process."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import collab
from collab.cli.plan import plan_of
from collab.errors import RecipeError, ToolUnavailable
from collab.recipe import load_recipe
from collab.records import Episode
from collab.runtime.problems import find_problems
from collab.runtime.prompt_check import check_prompts
from collab.runtime.summary import Rollout

pytestmark = pytest.mark.slow

SERVER = {"mcp": ["python", "server.py"]}


@pytest.fixture
def folder(project: Path) -> Path:
    shutil.copy(Path(__file__).parents[1] / "support/tools/mcp_server.py", project / "server.py")
    return project


def call(name: str, /, **arguments: Any) -> str:
    return f"```tool\n{json.dumps({'name': name, 'arguments': arguments})}\n```"


def play(folder: Path, answers: list[str], *settings: str, **server: Any) -> Rollout:
    """Agent `a` has the server's tools and gives these answers."""
    times = 3 if "samples=3" in settings else 1
    script = {"a": answers * times, "b": ["Say w3."] * times}
    (folder / "script.yaml").write_text(json.dumps(script))
    named = [f"agents.a.tools={json.dumps([{**SERVER, **server}])}", *settings]
    return collab.load("pair", model="scripted:script.yaml", settings=named).run("words/3")


def observed_text(episode: Episode, step: int = 1) -> str:
    return "\n".join(m.content for m in episode.decisions("a")[step].observation)


def starts(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "starts").read_text().split()]


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_one_server_answers_a_whole_run(folder: Path) -> None:
    """Results and errors are data; the server starts once and ends with the run."""
    answers = [
        call("double", n=4),
        call("double", n="four"),
        call("fails"),
        call("talks"),
        call("puzzles"),
        call("environment", name="OPENAI_API_KEY"),
        "Say w3.",
    ]
    other = f"agents.b.tools={json.dumps([{**SERVER, 'only': ['double']}])}"
    os.environ["OPENAI_API_KEY"] = "secret"
    try:
        rollout = play(folder, answers, other, "samples=3", "concurrency=1")
    finally:
        del os.environ["OPENAI_API_KEY"]
    assert len(rollout.episodes) == 3
    for episode in rollout.episodes:
        assert episode.failure is None
        assert observed_text(episode) == "8"
        assert observed_text(episode, 2).startswith("Error: ")
        assert observed_text(episode, 3) == "Error: Error executing tool fails"
        assert observed_text(episode, 4).endswith("(cut: 4000 of 100000 characters)")
        assert observed_text(episode, 5) == "a" * 40 + "!", (
            "results are not checked against the server's schema"
        )
        assert observed_text(episode, 6) == "not set"
    [pid] = starts(folder)
    assert has_ended(pid)


def test_a_server_that_dies_or_sleeps_is_an_error_for_the_agent(folder: Path) -> None:
    limit = "agents.a.harness={use: tools, options: {seconds: 0.3}}"
    answers = [call("sleeps"), call("dies"), call("double", n=4), "Say w3."]
    [episode] = play(folder, answers, limit).episodes
    assert episode.failure is None
    assert observed_text(episode) == "Error: sleeps was stopped at its time limit of 0.3 s"
    assert observed_text(episode, 2).startswith("Error: ")
    assert observed_text(episode, 3).startswith("Error: ")
    assert episode.reward == 1.0


def test_environment_variables_go_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "here")
    answers = [call("environment", name="PLACE"), "Say w3."]
    [episode] = play(folder, answers, environment=["PLACE"], only=["environment"]).episodes
    assert observed_text(episode) == "here"
    monkeypatch.delenv("PLACE")
    with pytest.raises(RecipeError, match="PLACE is not set"):
        play(folder, answers, environment=["PLACE"])


def test_server_that_does_not_start_is_reported_with_its_output(folder: Path) -> None:
    with pytest.raises(ToolUnavailable, match=r"(?s)server.py broken does not start.*no such data"):
        play(folder, [], mcp=["python", "server.py", "broken"])
    with pytest.raises(ToolUnavailable, match="no-such-command"):
        play(folder, [], mcp=["no-such-command"])
    with pytest.raises(ToolUnavailable, match=r"not ready within 0\.3 s"):
        play(folder, [], mcp=["sleep", "60"], seconds=0.3)


@pytest.mark.parametrize("server_output", [r"\xff\xfe", "x" * 100 + r"\xc3"])
def test_any_server_output_is_decoded_and_truncated(
    folder: Path, server_output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collab.tools.mcp_client.MAX_STDERR_BYTES", 60)
    with pytest.raises(ToolUnavailable, match="it said") as error:
        play(folder, [], mcp=["bash", "-c", f"printf 'first {server_output} last' >&2"])
    shown = str(error.value).partition("it said:\n")[2]
    assert shown.endswith("\ufffd last")
    assert shown.startswith("first") is (len(server_output) < 60)


def test_unknown_tool_of_a_server_is_refused(folder: Path) -> None:
    with pytest.raises(RecipeError, match="did you mean 'double'"):
        play(folder, [], only=["dubble"])


def test_tool_with_an_invalid_name_is_refused(folder: Path) -> None:
    with pytest.raises(
        RecipeError,
        match=r"^mcp python server.py misnamed has a tool called 'twice a number'.*letters, digits",
    ):
        play(folder, [], mcp=["python", "server.py", "misnamed"])


def test_missing_extra_names_its_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ToolUnavailable, match=r"pip install 'collab-agents\[mcp\]'"):
        play(folder, [])


def test_a_dry_run_and_a_plan_start_nothing(folder: Path) -> None:
    settings = [f"agents.a.tools={json.dumps([SERVER])}"]
    recipe = load_recipe("pair", task="words", model="echo", settings=settings)
    found = check_prompts(*find_problems(recipe, ["words/0"]))
    assert "the prompt tokens of mcp python server.py's tools are not counted" in found.warnings[0]
    asyncio.run(plan_of(*find_problems(recipe, ["words/0"])))
    assert not (folder / "starts").exists()


def test_run_folder_contains_the_server_file(folder: Path) -> None:
    (folder / "script.yaml").write_text(json.dumps({"a": ["Say w3."], "b": ["Say w3."]}))
    settings = [f"agents.a.tools={json.dumps([SERVER])}"]
    collab.load("pair", model="scripted:script.yaml", settings=settings).run("words/3", out="run")
    assert (folder / "run" / "functions" / "server.py").is_file()
    again = load_recipe("run", trust=True).team.agents["a"].tools
    assert [Path(word).name for word in again[0].mcp] == ["python", "server.py"]  # type: ignore[union-attr]
    assert "run" in Path(again[0].mcp[1]).parts  # type: ignore[union-attr]
