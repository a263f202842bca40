"""Intervals have their stated coverage at the usual numbers of tasks."""

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from support.shares import one_in, one_row_in

from collab.evaluation.intervals import difference_limits, mean_limits
from collab.evaluation.values import estimate_of, pass_at_k
from collab.runs import metric_names as names

CASES = 1000
FEWER_CASES = 500
"""Enough cases to check a lower limit."""
Simulated = Callable[[int, int, np.random.Generator], NDArray[np.float64]]
"""Maps numbers of cases and tasks to one value each."""


def passes(a: float, b: float, samples: int, k: int) -> Simulated:
    """Simulate pass@k of tasks with Beta(a, b) distributed success rates."""
    table = np.array([pass_at_k(samples, c, k) for c in range(samples + 1)])

    def simulate(cases: int, tasks: int, random: np.random.Generator) -> NDArray[np.float64]:
        return table[random.binomial(samples, random.beta(a, b, (cases, tasks)))]

    return simulate


def returns(cases: int, tasks: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Simulate returns like the published code reward's, with levels that gate each other."""
    main = random.random((cases, tasks)) < 0.95
    parsed = main & (random.random((cases, tasks)) < 0.9)
    tests = parsed * random.beta(0.6, 0.8, (cases, tasks))
    cooperation = parsed & (random.random((cases, tasks)) < 0.4)
    bonus = 0.375 * cooperation * random.random((cases, tasks))
    return 0.1 + 0.15 * main + 0.125 * parsed + 0.25 * tests + bonus


def gains(a: float, b: float, samples: int, most: float) -> Simulated:
    """Simulate differences in pass@1 to a team that is better by up to `most` per task."""

    def simulate(cases: int, tasks: int, random: np.random.Generator) -> NDArray[np.float64]:
        chance = random.beta(a, b, (cases, tasks))
        better = np.clip(chance + most * random.random((cases, tasks)), 0, 1)
        return (random.binomial(samples, better) - random.binomial(samples, chance)) / samples

    return simulate


MEANS: dict[str, Simulated] = {
    "pass@1, 5 % of 10": passes(0.15, 2.85, 10, 1),
    "pass@1, 30 % of 10": passes(0.5, 1.2, 10, 1),
    "pass@5, 26 %": passes(0.2, 1.8, 10, 5),
    "one sample, 10 %": passes(1e9, 9e9, 1, 1),
    "one sample, 50 %": passes(1e9, 1e9, 1, 1),
    "return": returns,
}
DIFFERENCES: dict[str, Simulated] = {
    "none, 5 % of 10": gains(0.15, 2.85, 10, 0.0),
    "5 points, 10 % of 10": gains(0.2, 1.8, 10, 0.1),
    "15 points, 30 % of 10": gains(0.5, 1.2, 10, 0.3),
    "8 points, one sample": gains(0.9, 0.6, 1, 0.2),
    "returns": lambda c, t, random: returns(c, t, random) - 0.8 * returns(c, t, random),
}


def clipped_values(draw: Callable[..., NDArray[np.float64]]) -> Simulated:
    """Simulate values of a distribution, clipped to 0 and 1."""
    return lambda cases, tasks, random: np.clip(draw(random, (cases, tasks)), 0, 1)


SKEWED: dict[str, Simulated] = {
    "Bernoulli, 10 %": clipped_values(lambda random, size: random.random(size) < 0.1),
    "Bernoulli, 80 %": clipped_values(lambda random, size: random.random(size) < 0.8),
    "Bernoulli, 50 %": MEANS["one sample, 50 %"],
    "exponential": clipped_values(lambda random, size: random.exponential(1 / 6, size)),
    "lognormal": clipped_values(lambda random, size: random.lognormal(0, 1, size) / 10),
    "lognormal, downwards": clipped_values(
        lambda random, size: 1 - random.lognormal(0, 1, size) / 10
    ),
    "Beta, 10 %": clipped_values(lambda random, size: random.beta(0.2, 1.8, size)),
}
SKEWED_DIFFERENCES: dict[str, Simulated] = {
    **{name: SKEWED[name] for name in ("Bernoulli, 10 %", "exponential", "lognormal")},
    "8 points": DIFFERENCES["8 points, one sample"],
    "exponential, mean 0": lambda c, t, random: random.exponential(0.1, (c, t)).clip(0, 1) - 0.1,
    "of Bernoullis": lambda c, t, random: (
        (random.random((c, t)) < 0.2) - 1.0 * (random.random((c, t)) < 0.1)
    ),
}


@pytest.mark.parametrize("tasks", one_in(4, [2, 3, 5, 8, 15, 20, 25, 30]))
def test_intervals_of_few_tasks_cover_the_truth(tasks: int) -> None:
    for simulate in SKEWED.values():
        low, high = mean_limits(simulated(simulate, tasks, FEWER_CASES), 0, 1)
        assert coverage(low, high, truth(simulate)) >= 0.92
    for simulate in SKEWED_DIFFERENCES.values():
        low, high = difference_limits(simulated(simulate, tasks, FEWER_CASES), 1)
        assert coverage(low, high, truth(simulate)) >= 0.92


@pytest.mark.parametrize(("name", "tasks"), one_row_in(4, product(MEANS, [31, 100])))
def test_intervals_of_means_cover_the_truth(name: str, tasks: int) -> None:
    low, high = mean_limits(simulated(MEANS[name], tasks), 0, 1)
    assert 0.93 <= coverage(low, high, truth(MEANS[name])) <= 0.97


@pytest.mark.parametrize(("name", "tasks"), one_row_in(4, product(DIFFERENCES, [31, 100])))
def test_intervals_of_paired_differences_cover_the_truth(name: str, tasks: int) -> None:
    low, high = difference_limits(simulated(DIFFERENCES[name], tasks), 1)
    assert 0.93 <= coverage(low, high, truth(DIFFERENCES[name])) <= 0.985


def simulated(simulate: Simulated, tasks: int, cases: int = CASES) -> NDArray[np.float64]:
    return simulate(cases, tasks, np.random.default_rng(7))


@cache
def truth(simulate: Simulated) -> float:
    return float(simulate(1, 500_000, np.random.default_rng(99)).mean())


def coverage(low: NDArray[np.float64], high: NDArray[np.float64], truth: float) -> float:
    return float(((low <= truth) & (truth <= high)).mean())


def test_intervals_of_token_counts_cover_the_truth() -> None:
    counts = np.random.default_rng(7).normal(100, 20, (FEWER_CASES, 4))
    found = [estimate_of(names.TOKENS_IN_SEQUENCE, row, largest=3.0) for row in counts.tolist()]
    low, high = (np.array([getattr(each, end) for each in found]) for end in ("low", "high"))
    assert coverage(low, high, 100.0) >= 0.92


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_identical_tasks_get_the_exact_interval_of_a_proportion(value: float) -> None:
    low, high = mean_limits([[value] * 31], 0, 1)
    assert low <= value <= high
    # Jeffreys' limit of 0 passes in 31, with only the unseen half: Beta(1/2, 31).
    assert high - low == pytest.approx(0.078, abs=0.003)


def test_constant_difference_has_a_two_sided_interval() -> None:
    low, high = difference_limits([[0.0] * 31], 1.0)
    assert -0.1 < low < 0 < high < 0.1


def test_more_tasks_give_narrower_intervals_around_the_mean() -> None:
    widths = []
    for tasks in (31, 124):
        low, high = mean_limits([[0.2, 0.4, 0.9, *[0.5] * 28] * (tasks // 31)], 0, 1)
        assert low < 0.5 < high
        widths.append(high - low)
    assert widths[0] > 1.5 * widths[1]
