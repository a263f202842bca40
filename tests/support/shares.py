"""A share of many like cases by default, and all of them with the slow tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(number: int, cases: Iterable[Any]) -> list[Any]:
    """Values of one parameter: every so many of the cases, and the others marked slow."""
    return one_row_in(number, ((case,) for case in cases))


def one_row_in(number: int, rows: Iterable[Iterable[Any]]) -> list[Any]:
    """The same of several parameters, of which a row holds a value each."""
    return [
        pytest.param(*row, marks=[pytest.mark.slow] if position % number else [])
        for position, row in enumerate(rows)
    ]
