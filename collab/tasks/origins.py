"""Reads rows as published: from a package, a local file, a generator, or the hub."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, files
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, NamedTuple

from collab.errors import TaskError
from collab.recipe import SourceSpec, documents
from collab.recipe.in_python import is_file_of_passed_rows, source_name
from collab.recipe.task import TABLE_ENDINGS
from collab.runs.reading import read_data
from collab.tasks.generated import generated_rows
from collab.tasks.hub import dataset_name, hub_rows
from collab.wording import explain_read_error

SuiteRow = dict[str, Any]

MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO = 1 << 26, 30
"""Maximum unpacked size of a gzipped file in bytes; a larger one may have at most this many
unpacked bytes per packed byte.
"""
MAX_ROWS = 1_000_000


class PlacedRow(NamedTuple):
    """A row and its position in its source, for messages."""

    source: str
    """Source of the row: a file, or a dataset's name and revision."""
    place: str
    """Position within the source, e.g. `line 3`, or `row 2` for rows counted from 0."""
    fields: SuiteRow


def published_rows(source: SourceSpec) -> list[PlacedRow]:
    """Return all rows of a source, in order, as they were published.

    Raises:
        TaskError: the source cannot be found or read, or a row is not a mapping.
    """
    if source.path:
        return read_file(Path(source.path))
    if source.package:
        return read_file(_package_file(source.package, str(source.file)))
    if source.generate:
        return add_positions(source.generate.use, number_rows(generated_rows(source)))
    return add_positions(dataset_name(source), number_rows(hub_rows(source)))


def read_file(path: Path) -> list[PlacedRow]:
    """Return the rows of a `.json` list or of JSON lines, gzipped or not.

    Blank lines are skipped, and a byte order mark is not part of the first row.

    Raises:
        TaskError: the file cannot be read, is a table of another format, is not JSON, unpacks to
            far more than its size, or holds a row that is not a mapping.
    """
    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending in TABLE_ENDINGS:
        raise TaskError(
            f"{path}: collab cannot read {ending}; save the rows as JSON lines (.jsonl) or one"
            " JSON list (.json), optionally gzipped (.gz)"
        )
    try:
        content = read_data(path)
        text = (_unpack(path, content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise TaskError(explain_read_error(path, error)) from error
    is_list = path.name.removesuffix(".gz").endswith(".json")
    rows = _parse_list(path, text) if is_list else _parse_lines(path, text)
    return add_positions(str(path), rows)


def add_positions(source: str, rows: Iterable[tuple[str, Any]]) -> list[PlacedRow]:
    """Return rows, each with its position in the source.

    Raises:
        TaskError: a row is not a mapping.
    """
    placed_rows = []
    for place, row in rows:
        if not isinstance(row, dict):
            kind = type(row).__name__
            raise TaskError(f"{source}, {place}: expected a mapping of fields, got {kind}")
        placed_rows.append(PlacedRow(source, place, row))
    return placed_rows


def number_rows(rows: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return each row with its number, counted from 0, for sources without lines."""
    return [(f"row {number}", row) for number, row in enumerate(rows)]


def _unpack(path: Path, content: bytes) -> bytes:
    """Unpack the content of a gzipped file, up to the limit for its size."""
    limit = max(MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO * len(content))
    with gzip.open(BytesIO(content)) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise TaskError(
            f"{path}: its {len(content) / 1e6:.1f} MB unpack to more than {limit / 1e6:.0f}"
            " MB, too much for a file of problems; if you trust it, unpack it yourself"
        )
    return data


def _parse_list(path: Path, text: str) -> list[tuple[str, Any]]:
    try:
        rows = documents.parse_strict_json(text)
    except ValueError as error:
        lines = "; if each line is a row, call the file .jsonl" * text.lstrip().startswith("{")
        raise TaskError(f"{path}: not JSON: {error}{lines}") from error
    if not isinstance(rows, list):
        raise TaskError(f"{path}: expected a list of problems, got {type(rows).__name__}")
    return number_rows(rows)


def _parse_lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Yield each line's value. Only a line feed ends a line: JSON strings may hold U+2028."""
    if text.lstrip().startswith("["):
        raise TaskError(f"{path}: not JSON lines, but one list; call the file .json")
    count = 0
    for number, line in enumerate(StringIO(text, newline="\n"), start=1):
        if line.strip():
            if count == MAX_ROWS:
                raise TaskError(f"{path}: more than {MAX_ROWS:,} problems; split the file")
            place = f"row {number - 1}" if is_file_of_passed_rows(path) else f"line {number}"
            try:
                yield place, documents.parse_strict_json(line.rstrip("\n"))
            except ValueError as error:
                raise TaskError(f"{source_name(str(path))}, {place}: not JSON: {error}") from error
            count += 1


def _package_file(package: str, file: str) -> Path:
    try:
        matching = [entry for entry in files(package) or [] if str(entry) == file]
    except PackageNotFoundError:
        raise TaskError(
            f"the package '{package}' is not installed; run: pip install {package}"
        ) from None
    if not matching:
        raise TaskError(f"the package '{package}' has no file '{file}'")
    return Path(str(matching[0].locate()))
