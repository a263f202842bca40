"""Reading the rows of a suite: from a package, a local file, or a dataset on the hub."""

from __future__ import annotations

import gzip
import json
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from collab.errors import TaskError
from collab.recipe import SourceSpec

Row = dict[str, Any]


def read_rows(source: SourceSpec) -> list[Row]:
    """All rows of a source, in order.

    Raises:
        TaskError: the source cannot be found or read, or a row is not a mapping.
    """
    if source.path:
        return read_file(Path(source.path))
    if source.package:
        return read_file(_package_file(source.package, str(source.file)))
    return _hub_rows(source)


def read_file(path: Path) -> list[Row]:
    """The rows of a `.json` list or of JSON lines, gzipped or not."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, UnicodeDecodeError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TaskError(f"{path}: cannot be read: {reason}") from error
    rows = _whole(path, text) if path.suffix == ".json" else _lines(path, text)
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise TaskError(f"{path}: row {number} is {type(row).__name__}, expected a mapping")
    return rows


def _whole(path: Path, text: str) -> list[Row]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise TaskError(f"{path}: not JSON: {error}") from error
    if not isinstance(rows, list):
        raise TaskError(f"{path}: expected a list of problems, got {type(rows).__name__}")
    return rows


def _lines(path: Path, text: str) -> list[Row]:
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise TaskError(f"{path}, line {number}: not JSON: {error}") from error
    return rows


def _package_file(package: str, file: str) -> Path:
    try:
        found = [entry for entry in files(package) or [] if str(entry) == file]
    except PackageNotFoundError:
        raise TaskError(
            f"the package '{package}' is not installed; remedy: pip install {package}"
        ) from None
    if not found:
        raise TaskError(f"the package '{package}' has no file '{file}'")
    return Path(str(found[0].locate()))


def _hub_rows(source: SourceSpec) -> list[Row]:
    try:
        from datasets import load_dataset  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise TaskError(
            f"the dataset '{source.hub}' is on the hub, which needs the 'datasets' package;"
            " remedy: pip install 'collab[hub]', or give the path of a local .jsonl file as suite"
        ) from None
    try:
        dataset = load_dataset(source.hub, split=source.split, revision=source.revision)
    except Exception as error:
        raise TaskError(
            f"the dataset '{source.hub}' cannot be read from the hub ({type(error).__name__}:"
            f" {error}); remedy: give the path of a local .jsonl file as suite"
        ) from error
    return [dict(row) for row in dataset]
