"""A share of many like cases by default, and all of them with the slow tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(number: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test: every so many of the cases, and the others marked slow."""
    return [
        pytest.param(case, marks=[pytest.mark.slow] if position % number else [])
        for position, case in enumerate(cases)
    ]
