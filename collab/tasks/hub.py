"""Datasets on the hub, or on a mirror named by HF_ENDPOINT.

A branch moves, so a suite is read at a commit, and the record has the commit's id. The hub's own
cache keeps downloads by commit. A completely cached dataset is read without the hub.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from collab.distribution import import_optional
from collab.errors import ModelUnavailable, TaskError
from collab.models.store.hub import DATASET_REMEDY, download, download_snapshot
from collab.recipe import SourceSpec
from collab.trust.from_hub import COMMIT


def pin_revision(source: SourceSpec) -> SourceSpec:
    """Return the source with its branch or tag replaced by the current commit id.

    If the hub cannot be reached, that is the commit in the cache. A source that is not on the hub
    is returned unchanged.

    Raises:
        TaskError: the complete dataset is not available at that revision.
    """
    if source.hub is None:
        return source
    _package(source.hub)
    return source.model_copy(update={"revision": _fetch(source.hub, source.revision).name})


def hub_rows(source: SourceSpec) -> Iterable[dict[str, Any]]:
    """Return the rows of the source's dataset and split on the hub, in order.

    Raises:
        TaskError: the complete dataset is not available at its revision, or has no such split.
    """
    name = str(source.hub)
    datasets = _package(name)
    folder = _fetch(name, source.revision)
    config = {"name": source.config} if source.config else {}
    try:
        rows = datasets.load_dataset(str(folder), **config, split=source.split)
        return list(map(dict, rows))
    except Exception as error:
        raise TaskError(
            f"{dataset_name(source)} cannot be read ({type(error).__name__}: {error}); set"
            f" task.source.split, and task.source.config, to existing ones, or {DATASET_REMEDY}"
        ) from error


def dataset_name(source: SourceSpec) -> str:
    """Return a dataset's name and revision in words, for messages."""
    return f"the dataset '{source.hub}'" + (
        f" at revision '{source.revision}'" if source.revision else ""
    )


def _package(name: str) -> Any:
    return import_optional("datasets", f"the dataset '{name}' on the hub", "hub", TaskError)


def _fetch(name: str, revision: str | None) -> Path:
    """Return the folder of a dataset in the hub's cache, which is named by its commit id."""
    from huggingface_hub import errors

    if COMMIT.fullmatch(revision or ""):
        with suppress(errors.LocalEntryNotFoundError, errors.IncompleteSnapshotError):
            return download_snapshot("dataset", name, revision, local_files_only=True)
    try:
        return download("dataset", name, revision)
    except ModelUnavailable as error:
        raise TaskError(str(error)) from error
