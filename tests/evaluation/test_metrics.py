"""pass@k and similar metrics, compared with enumeration of all subsets."""

from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collab.evaluation.values import best_of_k, pass_at_k

SHARES = st.floats(0, 1).map(lambda value: round(value, 3))


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 9))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@given(counts())
def test_pass_at_k_is_the_share_of_subsets_with_a_pass(nck: tuple[int, int, int]) -> None:
    n, c, k = nck
    passed = [True] * c + [False] * (n - c)
    assert pass_at_k(n, c, k) == pytest.approx(fmean(map(any, combinations(passed, k))), abs=1e-12)


@given(st.lists(SHARES, min_size=1, max_size=8), st.data())
def test_best_of_k_is_the_mean_of_subsets_best(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    expected = fmean(map(max, combinations(values, k)))
    assert best_of_k(values, k) == pytest.approx(expected, abs=1e-12)


def test_large_numbers_of_samples_do_not_overflow() -> None:
    assert pass_at_k(10_000, 1, 5_000) == 0.5
    assert best_of_k([1.0, *[0.0] * 1999], 1000) == 0.5
    assert pass_at_k(10**6, 1, 1) == 1e-6
