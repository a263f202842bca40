"""Names are not paths: no name makes collab write outside its folder."""

import json
import random
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError
from support.shares import one_in
from support.studies import train_here
from support.tiny_words import save_tiny
from support.word_project import make_project
from typer.testing import CliRunner

import collab
from collab import naming
from collab.cli.app import app
from collab.errors import CollabError, RecipeError
from collab.evaluation.results import TeamResult
from collab.evaluation.teams import find_teams
from collab.naming import FolderName, Name, SuiteName, as_name, is_name, joint_name
from collab.recipe import Recipe, load_recipe, read_task
from collab.recipe.in_python import Overrides
from collab.runs.about import new_run_id
from collab.study.results import CellResult
from collab.study.spec import Cell, StudySpec, TrainerEntry

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


@cache
def odd_names(number: int) -> list[str]:
    chance = random.Random(number)
    return ["".join(chance.choices(PIECES, k=chance.randint(1, 6))) for _ in range(number)]


def is_one_folder(name: str) -> bool:
    """Return True if a file of this name can be created, and is directly in its folder."""
    path = Path("/above", name)
    is_short = "\0" not in name and len(name.encode(errors="replace")) <= 255
    return is_short and path.parent == Path("/above") and path.name == name not in ("", ".", "..")


MANY = one_in(2, (2_000, 10_000))
TYPES = {kind: TypeAdapter(kind) for kind in (Name, SuiteName, FolderName)}


def accepted(kind: Any, name: str) -> bool:
    with suppress(ValidationError):
        TYPES[kind].validate_python(name)
        return True
    return False


@pytest.mark.parametrize("number", MANY)
def test_accepted_name_is_a_single_folder(number: int) -> None:
    for name in odd_names(number):
        assert accepted(Name, name) == (is_name(name)), name
        assert not is_name(name) or is_one_folder(name), name
        assert not accepted(FolderName, name) or Path("/above", name).parent == Path("/above")
        if accepted(SuiteName, name):
            assert all(is_name(piece) for piece in name.split("/")), name


@pytest.mark.parametrize("number", MANY)
def test_converted_text_is_a_valid_name(number: int) -> None:
    for name in odd_names(number):
        made = as_name(name)
        assert made == "" or is_name(made), name
        assert is_name(name) <= (made == name), name
        joint = joint_name([name, "b", name, name])
        assert is_name(joint), name
        assert is_one_folder(new_run_id(name)), name
        entry = TrainerEntry.model_construct(name=name)
        spec = StudySpec.model_construct(recipe="r", trainers=(entry,), tokens=1)
        cell = Cell(spec, entry, name, None, 2**63 - 1).name
        assert is_one_folder(cell), name


@pytest.mark.parametrize(
    "name", ["coding-single", "aux+main", "tldr_2", "3b", "v1.2", "\u5199\u624b"]
)
def test_plain_names_are_kept(name: str) -> None:
    assert is_name(name)
    assert as_name(name) == name
    assert accepted(SuiteName, f"reasoning_gym/{name}")


@pytest.mark.parametrize("key", ["name", "team.name", "task.name"])
def test_recipe_refuses_invalid_names(project: Path, key: str) -> None:
    for name in ODD:
        if (key, name) != ("task.name", "a/b"):  # a suite may belong to a family
            with pytest.raises(RecipeError, match=rf"{key}: .* is not a name; use letters, digits"):
                load_recipe(with_name(key, name))


def test_agent_name_length_is_limited() -> None:
    with pytest.raises(RecipeError, match="is not a plain word of at most 100 bytes"):
        load_recipe({"agents": {"a" * 101: {"prompt": "x"}}})


def with_name(key: str, name: str) -> dict[str, Any]:
    data: dict[str, Any] = load_recipe("pair", task="words", model="echo").model_dump(mode="json")
    within = data
    *above, last = key.split(".")
    for part in above:
        within = within[part]
    within[last] = name
    return data


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, and a run that trained an adapter of it; tests must not write here."""
    folder = tmp_path_factory.mktemp("trained")
    save_tiny(folder / "tiny", ["Say", "w0.", "w1."])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_project(folder, TEAM, n_words=2)
        collab.train(Recipe.model_validate(recipe_of(folder / "tiny")), out=folder / "run")
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in nested folders, so tests can check everything above it."""
    folder = tmp_path / "home" / "work" / "project"
    folder.mkdir(parents=True)
    make_project(folder, TEAM, n_words=2)
    (folder / "recipe.yaml").write_text("# mine\n")
    (folder.parent / "recipe.yaml").write_text("# mine\n")
    monkeypatch.chdir(folder)
    return folder


@cache
def recipe_of(tiny: Path | None) -> dict[str, Any]:
    """The data of a recipe for one agent, with the model `echo` or one to train."""
    team = {"name": "pair", "agents": {"a": {"prompt": "Say {{ task.word }}."}}}
    source = {"path": "tasks/words.jsonl"}
    task = read_task("words")[0].model_dump(mode="json") | {"source": source}
    if tiny is None:
        return {"team": team, "task": task, "model": "echo"}
    return {
        "team": team,
        "task": task,
        "model": {"name": str(tiny), "dtype": "float32", "device": "cpu"},
        "sampling": {"max_new_tokens": 1},
        "trainer": {"steps": 1, "tasks_per_step": 1, "group_size": 2, "checkpoint_every": 1},
    }


def named(data: dict[str, Any], key: str, name: str) -> str:
    """A foreign recipe in which one name is odd."""
    odd = json.loads(json.dumps(data))
    part = {"team.name": odd["team"], "task.name": odd["task"], "name": odd}.get(key)
    if part is not None:
        part["name"] = name
    if key == "agent":
        odd["team"]["agents"] = {name: odd["team"]["agents"].pop("a")}
    return json.dumps(odd)  # JSON is also YAML


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """All paths below a folder, with sizes and times of files."""
    found = {}
    for path in folder.rglob("*"):
        stat, is_file = path.stat(), path.is_file()
        place = path.relative_to(folder).as_posix()
        found[place] = (stat.st_size, stat.st_mtime_ns) if is_file else (0, 0)
    return found


def run_command(arguments: tuple[str, ...], key: str, name: str) -> int:
    """Run a command; return its exit status."""
    filled = [a.replace("KEY", key).replace("NAME", name) for a in arguments]
    return CliRunner().invoke(app, filled).exit_code


def in_python(name: str) -> int:
    """Run a team with names that bypassed the schema."""
    recipe = Recipe.model_validate(recipe_of(None))
    team = recipe.team.model_copy(update={"name": name})
    assert recipe.task is not None
    task = recipe.task.model_copy(update={"name": name})
    odd = recipe.model_copy(update={"team": team, "task": task, "name": name})
    with suppress(CollabError, ValueError):  # JSON cannot hold some names
        collab.Team(odd, trust=True).run("words/0", out=Path("runs") / new_run_id(odd.team.name))
    return 0


RUN = (
    r"/(\.lock|recipe\.yaml|run\.json|episodes\.jsonl|probe\.json|functions/parts\.py|data/[\w.]+)"
)
TRAINING = (
    rf"({RUN}|/(training\.yaml|metrics\.jsonl|evaluation\.jsonl|log\.txt)"
    r"|/(adapters/[^/]+|checkpoints/step-\d+(/policies/[^/]+)?)/[\w.]+)"
)
STAMP = r"\d{8}-\d{6}-\d{3}-"


@cache
def data_of(file: Path) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(file.read_text())
    return data


@dataclass(frozen=True)
class Door:
    """A command that writes, and the only places where it may write."""

    arguments: tuple[str, ...]
    """Arguments of `collab`; empty for a call in Python."""
    folder: str
    """Pattern of the folder that the command writes; NAME stands for the value of `key`."""
    key: str = ""
    """The key of the name that becomes part of a path; "" if none does."""
    files: str = RUN
    """Pattern of the files in the folder."""
    more: str = "never"
    """Pattern of other files."""
    evil: str = "x/../../../../../out"
    """A name that leads out of the folder if nothing checks it, but not out of `Doorway.above`."""
    trains: bool = False
    """True if it needs a model that can be trained; otherwise it uses `echo`."""


DOORS = {
    "run": Door(("run", "odd.yaml", "--trust"), f"runs/{STAMP}NAME", "team.name"),
    "run --out": Door(("run", "odd.yaml", "--out", "runs/r", "--trust"), "runs/r"),
    "run --set": Door(
        ("run", "odd.yaml", "--set", "KEY=NAME", "--trust"), f"runs/{STAMP}NAME", "team.name"
    ),
    "run of theirs": Door(("run", "theirs", "--trust"), f"runs/{STAMP}NAME", "team.name"),
    "eval": Door(
        ("eval", "odd.yaml", "--trust"),
        f"evals/{STAMP}NAME",
        "task.name",
        rf"(/(\.lock|eval\.json)|/odd{RUN})",
    ),
    "eval of theirs": Door(
        ("eval", "theirs", "--out", "evals/e", "--trust"),
        "evals/e",
        files=rf"(/(\.lock|eval\.json)|/theirs{RUN})",
    ),
    "train": Door(
        ("train", "odd.yaml", "--trust"),
        f"runs/{STAMP}NAME",
        "team.name",
        files=TRAINING,
        trains=True,
    ),
    "train --resume": Door(
        ("train", "--resume", "theirs", "--set", "trainer.steps=2", "--trust"),
        "theirs",
        "agent",
        files=TRAINING,
        evil="x/y",  # torch refuses a period in an agent's name
        trains=True,
    ),
    "probe": Door(
        ("probe", "odd.yaml", "--samples", "2", "--tasks", "1", "--trust"),
        f"runs/{STAMP}NAME",
        "team.name",
    ),
    "study": Door(
        ("study", "study.yaml", "--jobs", "1", "--out", "studies/s"),
        "studies/s/odd-NAME-seed-0",
        "trainer",
        files=TRAINING,
        more=r"studies/s/(\.lock|study\.json|study\.yaml|report\.html)",
        trains=True,
    ),
    "export": Door(
        ("export", "theirs", "--adapters", "runs/x"),
        "runs/x/NAME",
        "agent",
        files=r"/[\w.]+",
        trains=True,
    ),
    "push": Door(
        ("push", "theirs", "--to", "me/x", "--license", "mit", "--dry-run", "--out", "runs/p"),
        "runs/p",
        files=rf"({RUN}|/README\.md|/adapters/[^/]+/[\w.]+)",
        trains=True,
    ),
    "serve": Door(
        (
            *("serve", "odd.yaml", "other.yaml", "--name", "NAME", "--name", "other"),
            *("--record", "runs/s", "--port", "0", "--trust"),
        ),
        "runs/s/NAME",
        "served",
        more=f"runs/s/other{RUN}",
    ),
    "report": Door(("report", "theirs", "--out", "runs/r.html"), "runs/r.html", files=""),
    "in Python": Door((), f"runs/{STAMP}NAME", "team.name"),
}
KEYS = ("team.name", "task.name", "name", "agent", "trainer", "served")
PLAIN = "plain"


class Doorway:
    """Runs entry points in a project and compares files before and after."""

    def __init__(self, project: Path, above: Path, trained: Path) -> None:
        self.project, self.above, self.trained = project, above, trained

    def open(self, door: Door, key: str, name: str) -> tuple[int, set[str]]:
        """Return the exit status and the changed paths."""
        self.prepare(door, key, name)
        before = tree(self.above)
        status = run_command(door.arguments, key, name) if door.arguments else in_python(name)
        after = tree(self.above)
        return status, {p for p in before | after if before.get(p) != after.get(p)}

    def prepare(self, door: Door, key: str, name: str) -> None:
        """Write recipes, a study and a foreign run; remove earlier output."""
        for place in ("runs", "evals", "studies", "theirs"):
            shutil.rmtree(place, ignore_errors=True)
        data = recipe_of(self.trained / "tiny" if door.trains else None)
        Path("odd.yaml").write_text(named(data, key, name))
        Path("other.yaml").write_text(json.dumps(data))
        entry = {"name": name if key == "trainer" else "t", "trainer": "magrpo"}
        study = {"recipe": "odd.yaml", "trainers": [entry], "seeds": 1, "tokens": 2}
        sizes = {"trainer.group_size": 2, "trainer.tasks_per_step": 1}
        rows = {"trainer.tasks": "0", "trainer.evaluation.tasks": "1"}
        study["settings"] = {**sizes, **rows}
        Path("study.yaml").write_text(json.dumps(study))
        if "theirs" in door.arguments:
            self.prepare_theirs(door, key, name)

    def prepare_theirs(self, door: Door, key: str, name: str) -> None:
        """Write the trained run with an odd name in it."""
        theirs = Path("theirs")
        resumes = "--resume" in door.arguments and key != "agent"  # an odd agent has no checkpoint
        ignored = [] if resumes else ["checkpoints"]
        shutil.copytree(self.trained / "run", theirs, ignore=shutil.ignore_patterns(*ignored))
        about = data_of(self.trained / "run" / "run.json") | (
            {"agents": [name]} if key == "agent" else {"team": name}
        )
        (theirs / "run.json").write_text(json.dumps(about))
        for file in ("recipe.yaml", "training.yaml"):
            (theirs / file).write_text(named(data_of(self.trained / "run" / file), key, name))

    def strays(self, door: Door, changed: set[str]) -> list[str]:
        """The changed paths outside the allowed places, except their parent folders."""
        base = self.project.relative_to(self.above).as_posix()
        folder = door.folder.replace("NAME", "[^/]*")
        places = re.compile(f"{re.escape(base)}/({folder}{door.files}|{door.more})")
        good = {path for path in changed if places.fullmatch(path)}
        above = {str(parent) for path in good for parent in PurePosixPath(path).parents}
        return sorted(changed - good - above)

    def made(self, door: Door, changed: set[str]) -> list[str]:
        """The files written for the plain name."""
        base = self.project.relative_to(self.above).as_posix()
        place = door.folder.replace("NAME", PLAIN)
        pattern = re.compile(f"{re.escape(base)}/{place}{door.files}")
        return [path for path in changed if pattern.fullmatch(path)]


@pytest.fixture
def doorway(
    project: Path, tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> Doorway:
    """The server ends at once, and a study trains in this process."""

    async def ends(*_: Any) -> None:
        """Return at once."""

    monkeypatch.setattr("collab.serving.server.serve", ends)
    monkeypatch.setattr("collab.study.study.train", train_here)
    return Doorway(project, tmp_path, trained)


@pytest.mark.parametrize("name", DOORS)
def test_entry_point_writes_a_plain_name_into_its_folder(doorway: Doorway, name: str) -> None:
    door = DOORS[name]
    status, changed = doorway.open(door, door.key, PLAIN)
    assert status == 0
    assert doorway.made(door, changed) != []
    assert doorway.strays(door, changed) == []


def unchecked(patch: pytest.MonkeyPatch) -> None:
    """Remove every check of names, and the replacement of odd ones."""
    identity: Any = lambda text: text  # noqa: E731
    for function in (
        as_name,
        naming._check_name,
        naming._check_suite_name,
        naming._check_folder_name,
    ):
        patch.setattr(function, "__code__", identity.__code__)
    patch.setattr(is_name, "__code__", (lambda text: True).__code__)
    patch.setattr(Recipe._faults, "__code__", (lambda self: (yield from ())).__code__)
    patch.setattr("collab.serving.teams._NAME_PATTERN", re.compile("(?s).*"))


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.key])
def test_entry_point_without_checks_writes_elsewhere(
    doorway: Doorway, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every entry point writes outside without its checks, so the tests below would notice it."""
    door = DOORS[name]
    unchecked(monkeypatch)
    _, changed = doorway.open(door, door.key, door.evil)
    assert doorway.strays(door, changed) != []


async def notes(arguments: Sequence[str], log: Path, **_: Any) -> tuple[int, str]:
    """Replace a cell's training: write the log and fail."""
    log.write_text(" ".join(arguments), encoding="utf-8", errors="replace")
    return 1, "not trained"


def check_odd_names_stay_inside(doorway: Doorway, name: str, names: Sequence[str]) -> None:
    """Use odd names: mostly the entry point's own key, sometimes another key of the recipe."""
    door = DOORS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("collab.study.study.train", notes)
        for n, odd in enumerate(names):
            key = KEYS[n // 8 % len(KEYS)] if n % 8 == 7 or not door.key else door.key
            if "\ud800" not in odd:  # no file or command line can hold it
                _, changed = doorway.open(door, key, odd)
                assert doorway.strays(door, changed) == [], (key, odd)


@pytest.mark.parametrize("name", DOORS)
def test_no_command_writes_outside_of_its_folder(doorway: Doorway, name: str) -> None:
    at = list(DOORS).index(name)
    check_odd_names_stay_inside(doorway, name, [*ODD[at % 4 :: 4], *odd_names(2_000)[at:40:20]])


@pytest.mark.slow
@pytest.mark.parametrize("name", DOORS)
def test_ten_thousand_odd_names_write_nothing_outside(doorway: Doorway, name: str) -> None:
    """Each entry point gets its share of the names, each once, and at most 10 refused ones."""
    share = dict.fromkeys(odd_names(10_000)[list(DOORS).index(name) :: len(DOORS)])
    refused = [odd for odd in share if not is_name(odd)]
    check_odd_names_stay_inside(doorway, name, [*ODD, *filter(is_name, share), *refused[:10]])


def test_a_file_may_be_called_anything(project: Path) -> None:
    Path("agents", "my team (2).yaml").write_text(TEAM)
    Path("my words.jsonl").write_text(Path("tasks", "words.jsonl").read_text())
    recipe = load_recipe("agents/my team (2).yaml", task="words", model="echo")
    assert recipe.team.name == "my-team-2"
    assert load_recipe("pair", task="my words.jsonl").task.name == "my-words"  # type: ignore[union-attr]


@pytest.mark.parametrize("file", ["...yaml", "..yaml", "run.json", "eval.json", "a b.yaml"])
def test_each_evaluated_team_gets_its_own_folder(project: Path, file: str) -> None:
    Path(file).write_text(TEAM)
    if not file.endswith(".yaml"):
        Path(file).unlink()
        collab.load("pair", model="echo").run("words/0", out=file)
    [team] = find_teams([file], Overrides(keys={"model": "echo"}), tasks=["words/0"], trust=True)
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
def test_record_names_only_direct_subfolders(folder: str) -> None:
    for kind, key in ((TeamResult, "folder"), (TeamResult, "label"), (CellResult, "name")):
        with pytest.raises(ValidationError, match="is not a folder name"):
            kind.model_validate({key: folder})


def test_unnamed_team_is_named_after_its_agents() -> None:
    recipe = Recipe.model_validate({"team": {"agents": {a: {"prompt": "x"} for a in "abcde"}}})
    assert recipe.team.name == "a+b+c+2"
