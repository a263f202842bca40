"""No name is a path: what is called anything at all leaves nothing outside of its folder."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError
from support.word_project import make_project
from typer.testing import CliRunner

import collab
from collab.cli.app import app
from collab.errors import CollabError, RecipeError
from collab.evaluation.results import TeamResult
from collab.evaluation.teams import find_teams
from collab.naming import FolderName, Name, SuiteName, as_name, is_name, joint_name
from collab.recipe import Recipe, load_recipe, read_recipe
from collab.runs.about import new_run_id
from collab.study.results import CellResult
from collab.study.spec import Cell

PIECES = (
    *("..", ".", "/", "//", "\\", "\0", "\n", "\r", "\t", " ", "-", "--out", "+", "_", "~", "x"),
    *("run.json", "recipe.yaml", ".lock", "episodes.jsonl", "$HOME", "%2e%2e%2f", "file:///", ":"),
    *("\u2025", "\u2024", "\uff0f", "\u2215", "\u2044", "\u202e", "\ud800", "\u0131", "e\u0301"),
    *("x" * 90, "\u5199" * 90, "y" * 300, "{{ task }}", "*", "#", "'", '"', ";rm", "A7"),
)
ODD = (
    *("x/../../.", "..", "../out", "/tmp/x", "/", "a/b", "x/../..", "./x", "x/", "\0", "a\nb"),
    *("-x", "--out", "x.", "y" * 300, "\u5199" * 90, "..\uff0f..", "\u2025/x", "~/x", "\ud800"),
    *(".x", "."),
)
TEAM = 'agents:\n  a: {prompt: "Say {{ task.word }}."}\n  b: {prompt: "Say {{ task.word }}."}\n'


def odd_names(number: int) -> list[str]:
    chance = random.Random(number)
    return ["".join(chance.choices(PIECES, k=chance.randint(1, 6))) for _ in range(number)]


def is_one_folder(name: str) -> bool:
    """Whether a path with this last part lies right in the folder above, and can be made there."""
    path = Path("/above", name)
    is_short = "\0" not in name and len(name.encode(errors="replace")) <= 255
    return is_short and path.parent == Path("/above") and path.name == name not in ("", ".", "..")


TYPES = {kind: TypeAdapter(kind) for kind in (Name, SuiteName, FolderName)}


def accepted(kind: Any, name: str) -> bool:
    with suppress(ValidationError):
        TYPES[kind].validate_python(name)
        return True
    return False


def test_a_name_that_is_accepted_is_one_folder() -> None:
    for name in odd_names(10_000):
        assert accepted(Name, name) == (is_name(name)), name
        assert not is_name(name) or is_one_folder(name), name
        assert not accepted(FolderName, name) or Path("/above", name).parent == Path("/above")
        if accepted(SuiteName, name):
            assert all(is_name(piece) for piece in name.split("/")), name


def test_what_is_made_of_any_text_is_a_name() -> None:
    for name in odd_names(10_000):
        made = as_name(name)
        assert made == "" or is_name(made), name
        assert is_name(name) <= (made == name), name
        joint = joint_name([name, "b", name, name])
        assert is_name(joint), name
        assert is_one_folder(new_run_id(name)), name
        cell = Cell(name, name, 2**63 - 1, "r", "b", None, None, ()).name
        assert is_one_folder(cell), name


@pytest.mark.parametrize(
    "name", ["coding-single", "aux+main", "tldr_2", "3b", "v1.2", "\u5199\u624b"]
)
def test_plain_names_are_kept(name: str) -> None:
    assert is_name(name)
    assert as_name(name) == name
    assert accepted(SuiteName, f"reasoning_gym/{name}")


@pytest.mark.parametrize("key", ["name", "team.name", "task.name"])
@pytest.mark.parametrize("name", ODD)
def test_a_recipe_refuses_such_a_name(project: Path, key: str, name: str) -> None:
    if key == "task.name" and name == "a/b":
        pytest.skip("a suite may be a member of a family, FAMILY/NAME")
    with pytest.raises(RecipeError, match=rf"{key}: .* is not a name; use letters, digits"):
        load_recipe(with_name(key, name))


def test_an_agent_is_called_by_a_short_word() -> None:
    with pytest.raises(RecipeError, match="is not a plain word of at most 100 bytes"):
        load_recipe({"agents": {"a" * 101: {"prompt": "x"}}})


def with_name(key: str, name: str) -> dict[str, Any]:
    data: dict[str, Any] = read_recipe("pair", task="words", model="echo")[0].model_dump(
        mode="json"
    )
    within = data
    *above, last = key.split(".")
    for part in above:
        within = within[part]
    within[last] = name
    return data


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project deep in a folder of its own, all of which is looked through afterwards."""
    folder = tmp_path / "home" / "work" / "project"
    folder.mkdir(parents=True)
    make_project(folder, TEAM, n_words=2)
    (folder / "recipe.yaml").write_text("# mine\n")
    (folder.parent / "recipe.yaml").write_text("# mine\n")
    monkeypatch.chdir(folder)
    return folder


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def written(data: dict[str, Any], key: str, name: str) -> None:
    """Recipes with odd names, as somebody else may have written them, and what goes with them."""
    odd = json.loads(json.dumps(data))
    if key == "agent":
        odd["team"]["agents"] = {name: odd["team"]["agents"]["a"]}
    elif key != "trainer":
        part = {"team.name": odd["team"], "task.name": odd["task"], "name": odd}[key]
        part["name"] = name
    text = yaml.safe_dump(odd)
    study = {"recipe": "odd.yaml", "trainers": [{"name": name}], "seeds": 1, "tokens": 10}
    folder = Path("theirs")
    (folder / "adapters" / "a").mkdir(parents=True)
    (folder / "adapters" / "a" / "adapter_config.json").write_text('{"r": 4}')
    (folder / "adapters" / "a" / "adapter_model.safetensors").write_text("")
    (folder / "recipe.yaml").write_text(text)
    (folder / "run.json").write_text(json.dumps({"run": name, "team": name, "agents": [name]}))
    (folder / "training.yaml").write_text(text)
    Path("odd.yaml").write_text(text)
    Path("study.yaml").write_text(yaml.safe_dump(study))


def line(*arguments: str) -> Callable[[str, str], int]:
    def go(key: str, name: str) -> int:
        filled = [a.replace("KEY", key).replace("NAME", name) for a in arguments]
        return CliRunner().invoke(app, filled).exit_code

    return go


def in_python(key: str, name: str) -> int:
    """Names that no schema has seen."""
    recipe, _ = read_recipe("pair", task="words", model="echo")
    team = recipe.team.model_copy(update={"name": name})
    assert recipe.task is not None
    task = recipe.task.model_copy(update={"name": name})
    odd = recipe.model_copy(update={"team": team, "task": task, "name": name})
    with suppress(CollabError, ValueError):  # what JSON cannot hold
        collab.Team(odd, trust=True).run("words/0", out=Path("runs") / new_run_id(odd.team.name))
    return 0


DOORS: dict[str, Callable[[str, str], int]] = {
    "run": line("run", "odd.yaml", "-t", "words/0", "--trust"),
    "run --out": line("run", "odd.yaml", "--out", "runs/r", "--trust"),
    "run --set": line("run", "pair", "-m", "echo", "-t", "words/0", "--set", "KEY=NAME"),
    "run of theirs": line("run", "theirs", "--trust"),
    "eval": line("eval", "odd.yaml", "pair", "-t", "words/0", "-m", "echo", "--trust"),
    "eval of theirs": line("eval", "theirs", "--out", "evals/e", "--trust"),
    "train": line("train", "odd.yaml", "--trust"),
    "train --resume": line("train", "--resume", "theirs", "--trust"),
    "probe": line("probe", "odd.yaml", "--samples", "2", "--tasks", "1", "--trust"),
    "study": line("study", "study.yaml", "--jobs", "1", "--trust"),
    "export": line("export", "theirs", "--adapters", "runs/x"),
    "push": line("push", "theirs", "--to", "me/x", "--dry-run", "--out", "runs/p"),
    "serve": line("serve", "odd.yaml", "--port", "0", "--trust"),
    "report": line("report", "theirs", "--out", "runs/r.html"),
    "in Python": in_python,
}
KEYS = ("team.name", "task.name", "name", "agent", "trainer")
PLAIN = "plain"
MANY = [
    (door, KEYS[n % len(KEYS)], name)
    for n, name in enumerate([*ODD, *(n for n in odd_names(18) if "\ud800" not in n)])
    for door in list(DOORS)[n % 3 :: 3]
]


@pytest.mark.parametrize("door", DOORS)
def test_no_command_writes_outside_of_its_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    async def ends(*_: Any) -> None:
        """Nobody asks the server."""

    monkeypatch.setattr("collab.serving.server.serve", ends)
    data = read_recipe("pair", task="words", model="echo")[0].model_dump(mode="json")
    for key, name in [("name", PLAIN), *((key, name) for at, key, name in MANY if at == door)]:
        with suppress(ValueError, OSError):  # what YAML and a command line cannot hold
            written(data, key, name)
        before = tree(tmp_path)
        status = DOORS[door](key, name)
        after = tree(tmp_path)
        changed = {place for place in before | after if before.get(place) != after.get(place)}
        places = ("runs", "evals", "studies", "theirs/.lock")
        within = tuple(f"home/work/project/{place}" for place in places)
        if name == PLAIN and door in ("run", "run --out", "run of theirs", "eval", "probe", "push"):
            assert status == 0, "the door is open"
        assert [place for place in changed if not place.startswith(within)] == [], (key, name)
        for folder in ("runs", "evals", "studies"):
            for path in Path(folder).glob("*"):
                assert path.is_dir() or door in ("report",), (key, name)
        for path in sorted(Path("theirs").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        Path("theirs").rmdir()


def test_a_file_may_be_called_anything(project: Path) -> None:
    Path("agents", "my team (2).yaml").write_text(TEAM)
    Path("my words.jsonl").write_text(Path("tasks", "words.jsonl").read_text())
    recipe = load_recipe("agents/my team (2).yaml", task="words", model="echo")
    assert recipe.team.name == "my-team-2"
    assert load_recipe("pair", task="my words.jsonl").task.name == "my-words"  # type: ignore[union-attr]


@pytest.mark.parametrize("file", ["...yaml", "..yaml", "run.json", "eval.json", "a b.yaml"])
def test_a_team_of_an_evaluation_has_a_folder_of_its_own(project: Path, file: str) -> None:
    Path(file).write_text(TEAM)
    if not file.endswith(".yaml"):
        Path(file).unlink()
        collab.load("pair", model="echo").run("words/0", out=file)
    [team] = find_teams([file], tasks=["words/0"], model="echo", trust=True)
    assert is_name(team.label)
    found = CliRunner().invoke(
        app, ["eval", file, "-t", "words/0", "-m", "echo", "--out", "e", "--trust"]
    )
    assert found.exit_code == 0, found.output
    assert sorted(p.name for p in Path("e").iterdir() if p.is_dir()) != []
    assert json.loads(Path("e/eval.json").read_text())["status"] == "done"
    assert not Path("episodes.jsonl").exists()
    assert not Path("e/episodes.jsonl").exists()


@pytest.mark.parametrize("folder", ["../x", "/x", "..", "", "a/b", "\0"])
def test_a_record_names_folders_within_its_own(folder: str) -> None:
    for kind, key in ((TeamResult, "folder"), (TeamResult, "label"), (CellResult, "name")):
        with pytest.raises(ValidationError, match="is not a folder name"):
            kind.model_validate({key: folder})


def test_a_team_without_a_name_has_one_of_its_agents() -> None:
    recipe = Recipe.model_validate({"team": {"agents": {a: {"prompt": "x"} for a in "abcde"}}})
    assert recipe.team.name == "a+b+c+2"
