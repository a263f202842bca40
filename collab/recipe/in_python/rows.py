"""Problems that were given in Python: a file of rows like any other, while the process lives.

A run's folder takes the file in, as it takes in every suite that is a file.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collab.errors import RecipeError

_NAME = "rows"


def is_rows(task: Any) -> bool:
    """Whether a task is problems, and neither a name nor a suite's mapping."""
    return isinstance(task, Iterable) and not isinstance(task, str | Mapping)


def suite_of(rows: Iterable[Any]) -> dict[str, Any]:
    """A suite of these rows as in YAML, still without a reward.

    Its problems are code where every row has an `entry_point` and a `test`, else text.

    Raises:
        RecipeError: there is no row, one is no mapping, or a field is nothing that JSON can hold.
    """
    found = [_checked(number, row) for number, row in enumerate(rows)]
    if not found:
        raise RecipeError("the task is an empty list; give at least one row")
    is_code = all({"entry_point", "test"} <= row.keys() for row in found)
    return {
        "name": _NAME,
        "kind": "code" if is_code else "text",
        "source": {"path": str(_written(found))},
    }


def told_as(file: str) -> str:
    """A file of rows as its user knows it: those that were given in Python are in none."""
    given = _folder.cache_info().currsize and Path(file).is_relative_to(_folder())
    return "what was given in Python" if given else file


def _checked(number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise RecipeError(
            f"row {number} of the task is a {type(row).__name__}, not a mapping of fields; of a"
            " DataFrame give frame.to_dict('records')"
        )
    for field, value in row.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise RecipeError(
                f"row {number} of the task, field '{field}': {error}; give text, numbers, lists or"
                " mappings, or leave the field out"
            ) from None
    return {str(field): value for field, value in row.items()}


def _written(rows: Iterable[Mapping[str, Any]]) -> Path:
    """The file that holds the rows; equal rows are in one file."""
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file = _folder() / blake2b(content, digest_size=8).hexdigest() / f"{_NAME}.jsonl"
    if not file.exists():
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    return file


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="collab-rows-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
