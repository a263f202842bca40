"""The documentation as a whole: pages, links, names, and the files for contributors."""

import re
import subprocess
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import yaml
from structure.test_layering import LAYERS
from support.blocks import DOCS, blocks

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
