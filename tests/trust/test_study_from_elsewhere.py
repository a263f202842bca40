"""A foreign study needs approval like a recipe; nothing in it runs before."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.word_project import make_project
from typer.testing import CliRunner

from collab.cli.app import app
from collab.errors import RecipeError, Untrusted
from collab.study.spec import cells_of, load_study

TEAM = 'agents:\n  a: {prompt: "Say {{ task.word }}."}\n'
EVIL = """\
from pathlib import Path

Path(__file__).with_name("ran").write_text("ran")


def f(*anything, **options):
    return [{"word": "w0", "answer": "Say w0."}]
"""
FUNCTION = "code/evil.py:f"
AGENT = {"prompt": "p", "parser": FUNCTION}
SERVER = {"mcp": [sys.executable, "code/evil.py"]}
HOSTED = {"engine": "openai", "name": "m", "base_url": "http://evil.example/v1", "key": "A_API_KEY"}
TRAINER = {"name": "r", "trainer": "magrpo", "settings": {"trainer.algorithm": FUNCTION}}

SAYS: dict[str, tuple[dict[str, Any], str]] = {
    "an algorithm": ({"trainers": [FUNCTION]}, "run the function f"),
    "an algorithm in settings": (
        {"settings": {"trainer.algorithm": FUNCTION}},
        "run the function f",
    ),
    "a trainer's settings": ({"trainers": ["magrpo", TRAINER]}, "run the function f"),
    "a trainer's file": ({"trainers": ["trainer.yaml"]}, "run the function f"),
    "an engine": ({"model": FUNCTION}, "run the function f"),
    "an agent": ({"settings": {"team.agents.options": AGENT}}, "run the function f"),
    "a parser": ({"settings": {"agents.a.parser": FUNCTION}}, "run the function f"),
    "a suite": ({"tasks": ["suite.yaml"]}, "run the function f"),
    "a recipe": ({"recipe": "recipe.yaml"}, "run the function f"),
    "a server": ({"settings": {"agents.a.tools": [SERVER]}}, "run the command"),
    "an address": (
        {"model": "openai:http://evil.example/v1#m"},
        "send prompts and OPENAI_API_KEY to http://evil.example/v1",
    ),
    "a key": (
        {"settings": {"agents.a.model": HOSTED}},
        "send prompts and A_API_KEY to http://evil.example/v1",
    ),
    "isolation": ({"settings": {"sandbox.isolation": "unsafe"}}, "without any isolation"),
}
"""Contents of a study, and the question that each raises."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    make_project(home, TEAM, n_words=3)
    monkeypatch.chdir(home)
    return home


def study(folder: Path, content: dict[str, Any]) -> Path:
    """A study of the user's own team, in a folder with functions and a suite."""
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "evil.py").write_text(EVIL)
    reward = {"parts": {"p": {"use": "nonempty"}}}
    source = {"generate": FUNCTION, "rows": 1}
    suite = {"name": "s", "kind": "text", "source": source, "reward": reward}
    rows = {**suite, "source": {"path": "words.jsonl"}}
    (folder / "words.jsonl").write_text('{"word": "w0"}\n')
    files = {
        "study": {
            **{"recipe": "pair", "tasks": ["words"], "model": "echo", "trainers": ["magrpo"]},
            **{"seeds": 1, "tokens": 10, **content},
        },
        "suite": suite,
        "trainer": {"algorithm": FUNCTION},
        "recipe": {"team": {"agents": {"b": AGENT}}, "task": rows},
    }
    for name, data in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data))
    return folder / "study.yaml"


@pytest.mark.parametrize("case", SAYS)
def test_foreign_study_needs_approval(home: Path, case: str) -> None:
    content, question = SAYS[case]
    path = study(home.parent / "theirs", content)
    for more in ([], ["--dry-run"]):
        result = CliRunner().invoke(app, ["study", str(path), "--out", "s", *more])
        assert result.exit_code == 2, result.output
        shown = " ".join(result.output.split())
        assert question in shown
        assert "--trust" in shown
    assert not (path.parent / "code" / "ran").exists()
    assert not Path("s").exists()


@pytest.mark.parametrize("case", SAYS)
def test_own_study_needs_no_approval(home: Path, case: str) -> None:
    spec = load_study(study(home / "studies", SAYS[case][0]))
    assert cells_of(spec)


def test_approval_covers_the_study_and_its_runs(home: Path) -> None:
    """Each run is a separate process that reads the recipe again without asking."""
    path = study(home.parent / "theirs", {"recipe": "recipe.yaml", "trainers": [FUNCTION]})
    with pytest.raises(Untrusted, match="evil"):
        load_study(path, trust=False)
    questions: list[str] = []

    def ask(question: Any) -> bool:
        questions.append(question.text())
        return True

    spec = load_study(path, trust=ask)
    assert len(questions) == 1
    assert load_study(path) == spec
    assert [question.open for _, question in (cell.read() for cell in cells_of(spec))] == [()]
    path.write_text(path.read_text() + "description: changed\n")
    with pytest.raises(Untrusted, match="evil"):
        load_study(path)


@pytest.mark.parametrize("case", ["an algorithm in settings", "a parser"])
def test_function_changed_between_two_runs_needs_approval(home: Path, case: str) -> None:
    """A run's process gets the study's settings as arguments that the user never typed."""
    path = study(home.parent / "theirs", SAYS[case][0])
    [cell] = cells_of(load_study(path, trust=True))
    command = ["train", *cell.arguments(), "--dry-run"]
    assert "its engine 'echo' has no weights" in CliRunner().invoke(app, command).stderr
    file = path.parent / "code" / "evil.py"
    file.write_text(file.read_text() + "changed = True\n")
    assert "run the function f" in CliRunner().invoke(app, command).stderr


def test_study_in_a_run_folder_is_foreign(home: Path) -> None:
    path = study(home / "runs" / "theirs", {"trainers": [FUNCTION]})
    (path.parent / "run.json").write_text("{}")
    with pytest.raises(Untrusted, match="evil"):
        load_study(path)


def test_recipe_name_that_looks_like_an_option_is_refused(home: Path) -> None:
    with pytest.raises(RecipeError, match=r"write a file's path, \./--trust"):
        load_study(study(home.parent / "theirs", {"recipe": "--trust"}))


def test_python_functions_are_refused_even_with_approval(home: Path) -> None:
    path = study(home.parent / "theirs", {"settings": {"agents.a.parser": "os:system"}})
    with pytest.raises(RecipeError, match="function of Python itself"):
        load_study(path, trust=True)


def test_study_files_are_looked_up_next_to_it(home: Path) -> None:
    """Names that are not files next to the study are looked up as usual."""
    path = study(home.parent / "theirs", {"trainers": ["trainer.yaml"], "tasks": ["suite.yaml"]})
    [cell] = cells_of(load_study(path, trust=True))
    assert cell.entry.trainer == str(path.with_name("trainer.yaml").resolve())
    assert cell.suite == str(path.with_name("suite.yaml").resolve())
