"""Every command and call, given a foreign folder, runs nothing in it before approval."""

import asyncio
import shutil
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.shares import one_in, one_row_in
from support.trust import view
from support.word_project import make_project
from typer.testing import CliRunner

import collab
from collab import plugins
from collab.cli.app import COMMANDS, app
from collab.errors import CollabError, ToolUnavailable, Untrusted
from collab.evaluation.teams import overlap_notes
from collab.recipe import load_recipe, load_task, read_recipe
from collab.recipe.hosted import MCPServer
from collab.tools import ToolServers
from collab.trust import blocking, question

TEAM = 'agents:\n  a: {prompt: "Say {{ task.word }}."}\n'
EVIL = """\
from pathlib import Path

Path(__file__).with_name("ran").write_text("ran")


def f(*anything, **options):
    Path(__file__).with_name("ran").write_text("ran")
    given = anything[0] if anything else None
    return given if isinstance(given, str) else [{"word": "w0", "answer": "Say w0."}]
"""
ROW = '{"word": "w0", "answer": "Say w0."}\n'
FUNCTION = "functions/evil.py:f"
AGENT = {"prompt": "Say {{ task.word }}."}
PART = {"use": "contains", "options": {"phrases": ["w0"]}}

KINDS: dict[str, dict[str, Any]] = {
    "generator": {"source": {"generate": FUNCTION, "rows": 1}},
    "generator with options": {
        "source": {"generate": {"use": FUNCTION, "options": {"most": 3}}, "rows": 1}
    },
    "environment": {"task": {"kind": "environment", "environment": FUNCTION}},
    "part": {"part": {"use": FUNCTION}},
    "parser": {"agent": {"parser": FUNCTION}},
    "harness": {"agent": {"harness": FUNCTION}},
    "tools": {"agent": {"tools": [FUNCTION]}},
    "engine of an agent": {"agent": {"model": FUNCTION}},
    "server": {"agent": {"tools": [{"mcp": [sys.executable, "functions/evil.py"]}]}},
    "protocol": {"team": {"protocol": FUNCTION}},
    "join": {"team": {"join": FUNCTION}},
    "feedback": {"team": {"turns": 2, "feedback": [FUNCTION]}},
    "optional": {"team": {"turns": 2, "feedback": [{"source": FUNCTION, "required": False}]}},
    "engine": {"top": {"model": FUNCTION}},
    "algorithm": {"top": {"trainer": {"algorithm": FUNCTION}}},
}
"""Every kind of user function, and its place in a recipe."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's own project, and next to it, by kind, foreign folders."""
    home = tmp_path_factory.mktemp("home")
    make_project(home, TEAM, n_words=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        collab.load("pair", task="words", model="echo").run(out=home / "runs" / "mine")
        for kind in KINDS:
            _write(home / "runs" / kind, kind)
            _write(home.parent / f"{home.name}-elsewhere" / kind, kind)
    return home


@pytest.fixture
def home(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own project as the current folder."""
    monkeypatch.chdir(folders)
    return folders


def _write(folder: Path, kind: str) -> None:
    """Write a run folder with one custom function in its recipe, team, suite and training."""
    kind_data = KINDS[kind]
    task: dict[str, Any] = {
        "name": "theirs",
        "kind": "text",
        "source": kind_data.get("source", {"path": "words.jsonl"}),
        "hidden": ["answer"],
        "reward": {"parts": {"right": kind_data.get("part", PART)}},
        **kind_data.get("task", {}),
    }
    if task["kind"] == "environment":
        del task["reward"], task["source"]
    team = {
        "name": "t",
        "agents": {"a": AGENT | kind_data.get("agent", {})},
        **kind_data.get("team", {}),
    }
    recipe = {"team": team, "task": task, "model": "echo", **kind_data.get("top", {})}
    training = {"trainer": {"group_size": 2}, **recipe}
    (folder / "functions").mkdir(parents=True)
    (folder / "functions" / "evil.py").write_text(EVIL)
    (folder / "words.jsonl").write_text(ROW)
    trainer = training["trainer"]
    study = {"recipe": "recipe.yaml", "trainers": ["magrpo"], "seeds": 1, "tokens": 10}
    files = {"recipe": recipe, "training": training, "suite": task, "team": team}
    for name, data in (files | {"trainer": trainer, "study": study}).items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data))
    (folder / "adapters" / "a").mkdir(parents=True)
    (folder / "adapters" / "a" / "adapter_config.json").write_text("{}")
    for name in ("run.json", "episodes.jsonl"):
        shutil.copy(Path("runs", "mine", name), folder)


def command(*arguments: str) -> Callable[[Path], None]:
    """A command, with the folder in place of F."""

    def go(folder: Path) -> None:
        filled = [argument.replace("F", str(folder), 1) for argument in arguments]
        CliRunner().invoke(app, filled)

    return go


ECHO = ("--set", "model=echo")


def serve(folder: Path) -> None:
    """Run `collab serve` with a server that ends at once; without its extra there is none."""

    async def ends(*_: Any) -> None:
        """Return at once."""

    with pytest.MonkeyPatch.context() as patch, suppress(ImportError):
        patch.setattr("collab.serving.server.serve", ends)
        command("serve", "F", "--port", "0")(folder)


DOORS: dict[str, Callable[[Path], Any]] = {
    "run": command("run", "F", "--out", "r"),
    "run of a file": command("run", "F/recipe.yaml", "--out", "r"),
    "run of a team": command("run", "F/team.yaml", *ECHO, "-t", "words/0", "--out", "r"),
    "run of a suite": command("run", "pair", "-m", "echo", "-t", "F/suite.yaml/0", "--out", "r"),
    "run --dry-run": command("run", "F", "--dry-run"),
    "train": command("train", "F", "--out", "r"),
    "train --dry-run": command("train", "F/training.yaml", "--dry-run"),
    "train --resume": command("train", "--resume", "F"),
    "eval": command("eval", "F", "--out", "e"),
    "eval --dry-run": command("eval", "F", "--dry-run"),
    "eval of a file": command("eval", "F/recipe.yaml", "--out", "e"),
    "eval with an own team": command("eval", "pair", "F", "-m", "echo", "--out", "e"),
    "eval of a suite": command("eval", "pair", "-m", "echo", "-t", "F/suite.yaml/0", "--out", "e"),
    "probe": command("probe", "F", "--out", "r"),
    "serve": serve,
    "study": command("study", "F/study.yaml", "--out", "s"),
    "study --dry-run": command("study", "F/study.yaml", "--dry-run"),
    "score": command("score", "F/suite.yaml/0", "words.txt"),
    "tasks": command("tasks", "F/suite.yaml"),
    "teams": command("teams", "F/team.yaml"),
    "trainers": command("trainers", "F/trainer.yaml"),
    "replay": command("replay", "F"),
    "replay --out": command("replay", "F", "--out", "r"),
    "show": command("show", "F"),
    "diff": command("diff", "F", "runs/mine"),
    "report": command("report", "F", "--out", "r.html"),
    "view": view,
    "export": command("export", "F", "--adapters", "x"),
    "push": command("push", "F", "--to", "me/x", "--license", "mit", "--dry-run", "--out", "p"),
    "load": lambda folder: collab.load(str(folder)).run(),
    "run in Python": lambda folder: collab.load("pair", model="echo").run(f"{folder}/suite.yaml/0"),
    "load_recipe": lambda folder: load_recipe(str(folder)),
    "read_recipe": lambda folder: read_recipe(str(folder)),
    "load_task": lambda folder: load_task(f"{folder}/suite.yaml"),
    "evaluate": lambda folder: _evaluate(folder),  # noqa: PLW0108
    "overlap": lambda folder: [*overlap_notes(_with_adapter(folder), [])],
}
"""Everything that takes a recipe, a suite or a run folder."""


def _evaluate(folder: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a server that is not started
        return collab.evaluate(str(folder))


def _with_adapter(folder: Path) -> collab.Recipe:
    adapter = f"team.agents.a.adapter={folder}/adapters/a"
    return load_recipe("pair", task="words", model="tiny", settings=[adapter])


PLACES = ["runs", "elsewhere"]
DOORS_AND_PLACES = [(door, PLACES[(n + m) % 2]) for n, door in enumerate(DOORS) for m in (0, 1)]


@pytest.mark.parametrize(("door", "where"), one_row_in(4, DOORS_AND_PLACES))
def test_nothing_runs_before_approval(home: Path, door: str, where: str) -> None:
    above = home / "runs" if where == "runs" else home.parent / f"{home.name}-elsewhere"
    assert _kinds_that_ran(DOORS[door], above) == []


@pytest.mark.parametrize("door", one_in(4, DOORS))
def test_nothing_runs_when_an_entry_point_does_not_ask(
    home: Path, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions and tool servers are checked again when they are loaded or started."""
    monkeypatch.setattr(question.Question, "open", ())
    monkeypatch.setattr(question, "remember", lambda _: None)
    monkeypatch.setattr(blocking, "_unblocked", set())
    assert _kinds_that_ran(DOORS[door], home.parent / f"{home.name}-elsewhere") == []


def _kinds_that_ran(door: Callable[[Path], Any], above: Path) -> list[str]:
    """The kinds whose code ran when the entry point got their folders."""
    ran = []
    for kind in KINDS:
        with suppress(CollabError):
            door(above / kind)
        if (mark := above / kind / "functions" / "ran").exists():
            mark.unlink()
            ran.append(kind)
    return ran


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_needs_approval(home: Path, kind: str) -> None:
    with pytest.raises(Untrusted, match=r"evil\.py"):
        load_recipe(f"runs/{kind}")


def test_unapproved_function_is_not_loaded(home: Path) -> None:
    folder = home.parent / f"{home.name}-elsewhere" / "parser"
    for load in (load_recipe, read_recipe):
        with suppress(Untrusted):
            load(str(folder))
        with pytest.raises(Untrusted, match="--trust"):
            plugins.load_function("parser", f"{folder}/{FUNCTION}")
    assert not (folder / "functions" / "ran").exists()
    load_recipe(str(folder), trust=True)
    plugins.load_function("parser", f"{folder}/{FUNCTION}")
    (folder / "functions" / "ran").unlink()


def test_server_is_not_started_before_approval(home: Path) -> None:
    folder = home.parent / f"{home.name}-elsewhere" / "server"
    for load in (load_recipe, read_recipe):
        with suppress(Untrusted):
            load(str(folder))
        held_back = read_recipe(str(folder))[0].team.agents["a"].tools[0]
        assert isinstance(held_back, MCPServer)
        with pytest.raises(Untrusted, match="--trust"):
            asyncio.run(ToolServers().tools(held_back))
    assert not (folder / "functions" / "ran").exists()
    server = load_recipe(str(folder), trust=True).team.agents["a"].tools[0]
    assert isinstance(server, MCPServer)
    with pytest.raises(ToolUnavailable):  # it runs but is not an MCP server
        asyncio.run(ToolServers().tools(server))
    (folder / "functions" / "ran").unlink()


def test_generator_in_a_module_needs_approval(home: Path, tmp_path: Path) -> None:
    source = {"generate": "some_module:rows", "rows": 1}
    task = {"name": "x", "kind": "text", "source": source, "reward": {"parts": {"p": PART}}}
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(task))
    with pytest.raises(Untrusted, match="rows of some_module"):
        load_task(str(tmp_path / "suite.yaml"))


def test_tasks_command_asks_about_generators(home: Path) -> None:
    refused = CliRunner().invoke(app, ["tasks", "runs/generator/suite.yaml"])
    assert (refused.exit_code, "--trust" in refused.output) == (2, True)
    assert CliRunner().invoke(app, ["tasks", "runs/part/suite.yaml"]).exit_code == 0
    again = CliRunner().invoke(app, ["tasks", "runs/generator/suite.yaml", "--trust"])
    assert again.exit_code == 0, again.output
    (home / "runs" / "generator" / "functions" / "ran").unlink()


def test_recorded_evaluation_needs_no_approval(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments = ["eval", "runs/parser", "--out", str(tmp_path / "e")]
    assert CliRunner().invoke(app, arguments).exit_code == 2
    assert not (tmp_path / "e").exists()
    done = CliRunner().invoke(app, [*arguments, "--trust"])
    assert done.exit_code != 2, done.output
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "empty"))
    again = CliRunner().invoke(app, arguments)
    assert "--trust" not in again.output
    assert again.exit_code == done.exit_code, again.output
    (home / "runs" / "parser" / "functions" / "ran").unlink()


def test_every_command_is_tested_as_an_entry_point() -> None:
    named = {door.split()[0] for door in DOORS}
    takes_none = {"models", "schema", "init", "doctor"}
    untested = set(COMMANDS) - takes_none - named
    assert untested == set(), "remedy: a line in DOORS, or in `takes_none` if it reads no recipe"
