"""Runs a share of similar cases by default, and all of them with the slow tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(number: int, cases: Iterable[Any]) -> list[Any]:
    """Values of one parameter: every `number`th case, and the others marked slow."""
    return one_row_in(number, ((case,) for case in cases))


def one_row_in(number: int, rows: Iterable[Iterable[Any]]) -> list[Any]:
    """Rows of several parameters: every `number`th row, and the others marked slow."""
    return [
        pytest.param(*row, marks=[pytest.mark.slow] if position % number else [])
        for position, row in enumerate(rows)
    ]
