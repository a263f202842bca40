"""Foreign folders, and the user's own project."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.trust import EVIL, TEAM, Attacker, recipe_with
from support.word_project import make_project

import collab


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that foreign functions write when their file is loaded."""
    return tmp_path / "ran"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    make_project(folder, TEAM, n_words=3)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def evil(tmp_path: Path, marker: Path) -> Path:
    """A foreign run folder with its own functions."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "evil.py").write_text(EVIL.format(marker=str(marker)))
    (folder / "words.jsonl").write_text('{"word": "w0", "answer": "Say w0."}\n')
    (folder / "recipe.yaml").write_text(recipe_with(use="evil.py:right"))
    return folder


@pytest.fixture
def theirs(evil: Path, tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that another user made with their functions."""
    folder = tmp_path / "theirs"
    their_config = tmp_path / "their-config"
    before = os.environ["XDG_CONFIG_HOME"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(their_config))
    collab.load(str(evil), trust=True).run(out=folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", before)
    marker.unlink()
    for name in [name for name in sys.modules if name.startswith("collab_plugin_")]:
        del sys.modules[name]
    return folder


@pytest.fixture
def attacker(project: Path, tmp_path: Path, marker: Path) -> Iterator[Attacker]:
    folder = tmp_path / "attack"
    folder.mkdir()
    (folder / "words.jsonl").write_text('{"word": "w0", "answer": "Say w0."}\n')
    modules, path, hooks = {*sys.modules}, [*sys.path], [*sys.path_hooks]
    yield Attacker(folder, marker)
    sys.path[:], sys.path_hooks[:] = path, hooks
    for name in {*sys.modules} - modules:
        if name.partition(".")[0] in (
            "rules",
            "helper",
            "kit",
            "evil",
            "space",
            "HELPER",
            "pieces",
        ):
            del sys.modules[name]
