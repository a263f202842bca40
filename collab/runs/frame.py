"""Records as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from collab.errors import CollabError

if TYPE_CHECKING:
    import pandas


def to_pandas(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Make a data frame of rows, e.g. those of `read_metrics` and `list_runs`.

    Raises:
        CollabError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise CollabError("to_pandas needs pandas; remedy: pip install pandas") from error
    return pandas.DataFrame.from_records([dict(row) for row in rows])
