"""Only approved code runs, whatever files are next to it or in the current folder."""

import asyncio
import os
import py_compile
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.trust import Attacker, own_server, recipe_with

import collab
from collab import plugins
from collab.distribution import python_command
from collab.errors import RecipeError, Untrusted
from collab.recipe import load_recipe
from collab.study.study import train
from collab.trainers.ranks.launching import torchrun_arguments
from collab.trust.sources import SourceFile, digest_of

RULES = "def right(context):\n    return 1.0\n"
EVIL = "from pathlib import Path\nPath({!r}).write_text('ran')\n\n" + RULES


@pytest.fixture
def folder(attacker: Attacker) -> Path:
    """A foreign folder with one harmless function, and a project next to it."""
    attacker.write("rules.py", RULES)
    attacker.write("recipe.yaml", recipe_with(use="rules.py:right"))
    return attacker.folder


def plant(source: Path, marker: Path) -> None:
    """Plant bytecode that Python loads without checking the source file."""
    Attacker(source.parent, marker).compiled(source.name, "cache")


def load(folder: Path, name: str = "rules.py:right") -> object:
    return plugins.load_function("reward", f"{folder}/{name}")


@pytest.mark.parametrize("when", ["before the yes", "after the yes"])
@pytest.mark.parametrize("beside", [False, True])
def test_bytecode_next_to_the_source_does_not_run(
    folder: Path, marker: Path, when: str, beside: bool
) -> None:
    planted = folder / "rules.py"
    if beside:
        planted = folder / "helper.py"
        (folder / "rules.py").write_text("from helper import right\n")
        planted.write_text(RULES)
    if when == "before the yes":
        plant(planted, marker)
    load_recipe(str(folder), trust=True)
    if when == "after the yes":
        plant(planted, marker)
    load(folder)
    assert not marker.exists()


def test_own_files_run_from_their_source(project: Path, marker: Path) -> None:
    (project / "rules.py").write_text(RULES)
    plant(project / "rules.py", marker)
    plugins.load_function("reward", "rules.py:right")
    assert not marker.exists()
    shutil.rmtree(project / "__pycache__")
    (project / "helper.py").write_text("one = 1\n")
    (project / "more.py").write_text("import helper\n" + RULES)
    plugins.load_function("reward", "more.py:right")
    assert not (project / "__pycache__").exists()


def test_a_module_runs_from_its_source(folder: Path, marker: Path) -> None:
    sys.path.insert(0, str(folder))
    (folder / "recipe.yaml").write_text(recipe_with(use="rules:right"))
    load_recipe(str(folder), trust=True)
    plant(folder / "rules.py", marker)
    plugins.load_function("reward", "rules:right")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["rules.py:right", "rules:right"])
def test_function_changed_after_approval_is_not_run(folder: Path, marker: Path, name: str) -> None:
    sys.path.insert(0, str(folder))
    (folder / "recipe.yaml").write_text(recipe_with(use=name))
    load_recipe(str(folder), trust=True)
    (folder / "rules.py").write_text(EVIL.format(str(marker)))
    with pytest.raises(Untrusted, match="has changed"):
        plugins.load_function("reward", f"{folder}/{name}" if ".py" in name else name)
    assert not marker.exists()
    load_recipe(str(folder), trust=True)
    plugins.load_function("reward", f"{folder}/{name}" if ".py" in name else name)
    assert marker.exists()


def test_function_changed_since_approval_is_not_packed(
    folder: Path, project: Path, marker: Path
) -> None:
    team = collab.load(str(folder), trust=True)
    (folder / "rules.py").write_text(EVIL.format(str(marker)))
    with pytest.raises(Untrusted, match="has changed"):
        team.run(out="r")


@pytest.mark.parametrize("name", ["deep/fast.pyc", "deep/fast.so", "deep/fast.abi3.so"])
def test_compiled_files_in_packages_are_ignored(folder: Path, marker: Path, name: str) -> None:
    package = folder / "pieces"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "deep" / "__init__.py").write_text("")
    (folder / "rules.py").write_text("from pieces.deep import fast\n" + RULES)
    load_recipe(str(folder), trust=True)
    (package / "fast.txt").write_text(EVIL.format(str(marker)))
    py_compile.compile(str(package / "fast.txt"), cfile=str(package / name))
    with pytest.raises(RecipeError, match="fast"):
        load(folder)
    assert not marker.exists()


@pytest.mark.parametrize("kind", ["pipe", "device", "holes", "too large"])
def test_odd_files_in_packages_are_not_read(
    folder: Path, marker: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (folder / "rules.py").write_text("import pieces\n" + EVIL.format(str(marker)))
    odd = folder / "pieces" / "odd.py"
    odd.parent.mkdir()
    match kind:
        case "pipe":
            os.mkfifo(odd)
        case "device":
            odd.symlink_to("/dev/zero")
        case "holes":
            odd.touch()
            os.truncate(odd, 1 << 40)
        case _:
            monkeypatch.setattr("collab.trust.sources.MAX_FILE_BYTES", 9)
            odd.write_text("x = [\n] * 10\n")
    with pytest.raises(RecipeError, match=r"odd\.py cannot be read|more than"):
        load_recipe(str(folder), trust=True)
    assert not marker.exists()


def test_sibling_not_named_in_an_import_is_not_imported(folder: Path, marker: Path) -> None:
    (folder / "rules.py").write_text(
        "import importlib, sys\nfrom pathlib import Path\n"
        "sys.path.insert(0, str(Path(__file__).parent))\nimportlib.import_module('sib' + 'ling')\n"
        + RULES
    )
    load_recipe(str(folder), trust=True)
    (folder / "sibling.py").write_text(EVIL.format(str(marker)))
    with pytest.raises(RecipeError, match="is third-party code"):
        load(folder)
    assert not marker.exists()


def test_link_to_a_foreign_module_needs_approval(folder: Path, project: Path) -> None:
    (project / "helper.py").symlink_to(folder / "rules.py")
    (project / "mine.py").write_text("from helper import right\n")
    (project / "mine.yaml").write_text(recipe_with(use="mine.py:right"))
    with pytest.raises(Untrusted, match=r"mine\.py"):
        load_recipe("mine.yaml")


@pytest.mark.parametrize("linked", ["the package", "a package within one of the user's own"])
def test_foreign_package_without_init_needs_approval(
    folder: Path, project: Path, linked: str
) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "helper.py").write_text(RULES)
    if linked == "the package":
        (project / "theirs").symlink_to(folder)
        (project / "mine.py").write_text("from theirs.deep.helper import right\n")
    else:
        (project / "pieces").mkdir()
        (project / "pieces" / "__init__.py").write_text("")
        (project / "pieces" / "sub").symlink_to(folder / "deep")
        (project / "mine.py").write_text("from pieces.sub.helper import right\n")
    (project / "mine.yaml").write_text(recipe_with(use="mine.py:right"))
    with pytest.raises(Untrusted, match=r"mine\.py"):
        load_recipe("mine.yaml")


def test_own_package_needs_no_init(project: Path) -> None:
    (project / "pieces" / "deep").mkdir(parents=True)
    (project / "pieces" / "deep" / "helper.py").write_text(RULES)
    (project / "pieces" / "deep" / "up").symlink_to(project / "pieces")
    (project / "mine.py").write_text("from pieces.deep.helper import right\n")
    (project / "mine.yaml").write_text(recipe_with(use="mine.py:right"))
    load_recipe("mine.yaml")
    assert plugins.load_function("reward", "mine.py:right")(None) == 1.0


def test_link_made_after_approval_is_not_imported(
    folder: Path, project: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = "try:\n    __import__('helper.core')\nexcept ImportError: ...\n"
    (folder / "rules.py").write_text(attempt + RULES)
    load_recipe(str(folder), trust=True)
    (folder / "helper").mkdir()
    (folder / "helper" / "core.py").write_text(EVIL.format(str(marker)))
    (project / "helper").symlink_to(folder / "helper")
    monkeypatch.syspath_prepend(str(project))
    load(folder)
    assert not marker.exists()


def test_a_script_without_suffix_is_read_with_its_imports(folder: Path, project: Path) -> None:
    (project / "helper.py").symlink_to(folder / "rules.py")
    (project / "server").write_text("import helper\n")
    with pytest.raises(Untrusted, match="python server"):
        own_server("python", "server")


def test_typed_paths_do_not_approve_a_command(folder: Path) -> None:
    """Only a command that the user typed in full is the user's own."""
    rows = folder / "words.jsonl"
    agents = {"a": {"prompt": "p", "tools": [{"mcp": [str(rows)]}]}}
    (folder / "recipe.yaml").write_text(recipe_with(agents=agents, use="length"))
    with pytest.raises(Untrusted, match="run the command"):
        load_recipe(str(folder), task=str(rows))
    with pytest.raises(Untrusted, match="run the command"):
        load_recipe(str(folder), settings=[f"task.source.path={rows}"])
    load_recipe(str(folder), settings=[f"agents.a.tools=[{{mcp: [{rows}]}}]"])


@pytest.mark.parametrize("program", ["sh", sys.executable, "bin/python"])
def test_installed_program_needs_no_approval(project: Path, program: str) -> None:
    (project / "pyvenv.cfg").write_text("")
    (project / "bin").mkdir()
    (project / "bin" / "python").symlink_to(sys.executable)
    (project / "server.py").write_text("")
    own_server(program, "server.py")


def test_file_name_cannot_pass_as_content() -> None:
    code = b"print('planted')"
    name = f"a.py {len(code)}\n{code.decode()}b.py"
    one = [SourceFile(Path(), Path("__init__.py"), b""), SourceFile(Path(), Path(name), b"")]
    other = [SourceFile(Path(), Path("__init__.py"), b""), SourceFile(Path(), Path("a.py"), code)]
    other.append(SourceFile(Path(), Path("b.py"), b""))
    assert digest_of(one) != digest_of(other)


MARKS = "open('ran', 'w').close()\n"


@pytest.fixture
def evil_folder(here: Path) -> Path:
    """A received folder in which the user starts the command `collab`."""
    (here / "collab").mkdir()
    for name in ("json.py", "collab/__init__.py", "collab/__main__.py"):
        (here / name).write_text(MARKS)
    return here


def test_study_run_runs_nothing_from_the_current_folder(evil_folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    status, error = asyncio.run(train(["nothing.yaml"], log, threads=1))
    assert (status, "nothing.yaml" in error) == (2, True), error
    assert not Path("ran").exists()


def test_rank_executes_nothing_from_the_current_folder(evil_folder: Path) -> None:
    from torch.distributed.run import config_from_args, parse_args

    ranks: Any = parse_args(torchrun_arguments(2, ["--help"]))
    _, command, arguments = config_from_args(ranks)
    assert isinstance(command, str), "torchrun gets a program, not a function"
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, "collab" in done.stdout) == (0, True), done.stderr
    assert not Path("ran").exists()


def test_children_of_python_m_collab_may_import_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    assert python_command() == [sys.executable, "-P"]
    monkeypatch.setattr(sys, "path", [str(here), *sys.path])
    assert python_command() == [sys.executable]


def test_package_starts_python_only_in_safe_path_mode() -> None:
    started = re.compile(r'sys\.executable, (?!"-P"|\*_ALONE)')
    sources = sorted(Path(collab.__file__).parent.rglob("*.py"))
    assert [str(path) for path in sources if started.search(path.read_text())] == []
