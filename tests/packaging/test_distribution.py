"""The distribution: its name, which every hint uses, and its lowest requirements."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import collab
from collab import distribution

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_distribution_name_matches_the_project() -> None:
    assert PROJECT["name"] == distribution.DISTRIBUTION != "collab"
    assert PROJECT["scripts"] == {"collab": "collab.cli:main"}


def test_version_comes_from_the_installed_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"9 of {name}")
    assert collab.__version__ == "9 of collab-agents"


def test_uninstalled_clone_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    monkeypatch.setattr("importlib.metadata.requires", missing)
    assert (collab.__version__, distribution.version_ranges()) == ("0+unknown", {})


def test_install_hints_name_the_right_distribution() -> None:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.*"), *(ROOT / "collab").rglob("*.py")]
    texts = {path: path.read_text() for path in files if path.suffix in (".md", ".json", ".py")}
    wrong = re.compile(r"pip install[^\n]*?[ '\"]collab(?![\w-])")
    assert [str(path) for path, text in texts.items() if wrong.search(text)] == []
    extras = re.compile(r"collab-agents\[(\w+)\]")
    named = {extra for text in texts.values() for extra in extras.findall(text)}
    assert named <= set(PROJECT["optional-dependencies"])


TESTED_EXTRAS = ("serve", "mcp", "dev")


def test_lowest_constraints_match_the_lower_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = [
        *project["dependencies"],
        *(line for key in TESTED_EXTRAS for line in extras[key]),
    ]
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    versions = [line for line in lines if not line.startswith("#")]
    assert versions == sorted({_lowest(line) for line in requirements}, key=str.lower)


def _lowest(requirement: str) -> str:
    """Turn `name>=1.2,<3` into `name==1.2`."""
    bound = re.fullmatch(r"([\w-]+)>=([\w.]+)(?:,<[\w.]+)?", requirement)
    assert bound, f"{requirement!r} has no lower bound"
    return f"{bound[1]}=={bound[2]}"
