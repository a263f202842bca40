"""The documentation as a whole: pages, links, names, commands, and the files for contributors."""

import re
import shlex
import subprocess
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from structure.test_layering import LAYERS
from support.blocks import DOCS, blocks
from typer import Context
from typer.main import get_command

from collab.cli.app import COMMANDS, app

ROOT = DOCS.parent
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
MADE = {"index.md", "contributing.md", "changelog.md", "reference/cli.md"} | {
    f"reference/{schema.stem}.md" for schema in DOCS.glob("schema/*.json")
}


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    navigation = re.findall(r": ([\w/]+\.md)$", text, re.MULTILINE)
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(navigation) == sorted(written | MADE)


def test_links_of_the_pages_resolve() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\((?!https://)([^)\s]+)\)", prose):
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            assert file.exists(), (page.name, target)
            assert not anchor or anchor in anchors(file), (page.name, target)


@cache
def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_reference_names_only_existing_objects() -> None:
    for page in (DOCS / "reference").glob("*.md"):
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
            room, _, thing = name.rpartition(".")
            assert hasattr(import_module(room), thing) or find_spec(name), name


def test_layer_diagram_matches_the_checked_layers() -> None:
    drawn = [line.split() for line in blocks("architecture.md", "text")[0].splitlines()]
    assert [set(floor) for floor in reversed(drawn)] == LAYERS[:-1]


def test_terms_are_unique_and_sorted() -> None:
    terms = re.findall(r"^\| ([^|]+) \|", (DOCS / "terms.md").read_text(), re.MULTILINE)[1:]
    assert terms == sorted(set(terms), key=str.lower)


def test_package_paths_in_the_pages_exist() -> None:
    for page in PAGES:
        for path in re.findall(r"`((?:collab|tests|benchmarks)/[\w./]+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_make_targets_named_for_contributors_exist() -> None:
    texts = [(ROOT / name).read_text() for name in ("CONTRIBUTING.md", ".ci/run")]
    texts += [path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")]
    make_calls = {
        t
        for text in texts
        for t in re.findall(r"^\W*(?:run: )?make ([a-z -]+?)(?:  |$|`)", text, re.M)
    }
    for targets in sorted(make_calls):
        command = ["make", "--dry-run", *targets.split()]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert {"docs", "lint types", "test"} <= make_calls


def test_workflows_and_hooks_are_yaml() -> None:
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        workflow = yaml.safe_load(path.read_text())
        for job in workflow["jobs"].values():
            assert all({"uses", "run"} & set(step) for step in job["steps"]), path.name
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"], "nothing is downloaded"


COMMAND_PAGES = [*sorted(DOCS.glob("*.md")), *sorted(DOCS.parent.glob("*.md"))]


def commands_of(page: Path) -> list[str]:
    """The commands of a page, from its code blocks and from inline code."""
    text = page.read_text().replace("\\\n", " ")
    lines = re.findall(
        r"^(collab .+)$", "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)), re.M
    )
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return lines + [" ".join(code.split()) for code in re.findall(r"`(collab [^`]+)`", prose)]


def test_commands_and_options_exist() -> None:
    group: Any = get_command(app)
    context = Context(group)
    for command in [command for page in COMMAND_PAGES for command in commands_of(page)]:
        _, name, *words = shlex.split(command, comments=True)
        if name.startswith("-"):
            continue
        assert name in COMMANDS, command
        _, found_command, _ = group.resolve_command(context, [name])
        known_options = {option for parameter in found_command.params for option in parameter.opts}
        used_options = {word for word in words if word.startswith("-")}
        assert used_options <= known_options | {"--help"}, command


def test_there_are_commands_to_check() -> None:
    assert sum(len(commands_of(page)) for page in COMMAND_PAGES) > 30


HOOK = Path(__file__).parents[2] / ".ci/subject.py"


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        ("serving: stream single-agent teams that have a prefix", ""),
        ("Merge branch 'main'", ""),
        ("serving: " + "x" * 60, "subject has 69 characters, limit 60"),
        ("stream single-agent teams", "is not of the form 'area: imperative'"),
        ("serving: stream teams.", "is not of the form"),
        ("plan: count logits; ranks: sync once", "one commit per change"),
    ],
)
def test_a_subject_is_accepted_or_the_rule_is_named(
    tmp_path: Path, subject: str, complaint: str
) -> None:
    message = tmp_path / "message"
    message.write_text(f"{subject}\n\nThe body may be as long as it needs to be; it says why.\n")
    command = [sys.executable, str(HOOK), str(message)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(complaint)
    assert complaint in done.stderr
