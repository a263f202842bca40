"""Means over seeds: groups by name, t intervals, differences paired by seed."""

from typing import Any

import numpy as np
import pytest

from collab.evaluation.results import Estimate, TeamResult
from collab.evaluation.seeds import change_over_seeds, mean_over_seeds, seed_groups, t_quantile


def team(label: str, **metrics: float) -> TeamResult:
    estimates = {n: Estimate(mean=v, low=0, high=1, tasks=9) for n, v in metrics.items()}
    fields: dict[str, Any] = {"label": label, "metrics": estimates, "maximum": 1.0, "turns": 1}
    return TeamResult.model_construct(**fields)


def test_quantiles_are_those_of_published_tables() -> None:
    quantiles = [t_quantile(0.975, freedom) for freedom in (1, 2, 4, 9, 30)]
    assert quantiles == pytest.approx([12.7062, 4.3027, 2.7764, 2.2622, 2.0423], abs=1e-4)


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_intervals_over_seeds_cover_the_truth(seeds: int) -> None:
    random = np.random.default_rng(7)
    for values, truth in ((random.normal(0.3, 0.05, (1000, seeds)), 0.3),
                          (random.beta(8, 2, (1000, seeds)), 0.8)):  # fmt: skip
        limits = [mean_over_seeds(list(row), 1.0).limits or (0, 0) for row in values]
        assert 0.92 <= np.mean([low <= truth <= high for low, high in limits]) <= 0.97


def test_limits_are_possible_values() -> None:
    assert mean_over_seeds([1.0, 0.8], 1.0).limits == (0.0, 1.0)
    assert change_over_seeds([0.1, -0.9], 1.0).limits == (-1.0, 1.0)


def test_equal_values_have_no_interval() -> None:
    over = mean_over_seeds([0.1 + 0.2, 0.3, 0.3], 1.0)
    assert (over.limits, over.tasks, over.interval_note) == (None, 3, "all 3 equal")
    assert mean_over_seeds([0.3], 1.0).interval_note == "only 1"


def test_teams_are_grouped_by_name_and_paired_by_seed() -> None:
    teams = [
        team("one-seed-0", solved=0.2), team("pair-seed-1", solved=0.7),
        team("one-seed-1", solved=0.4), team("pair-seed-0", solved=0.4, only=1.0),
        team("pair-seed-2", solved=1.0), team("pair", solved=0.9), team("lone-seed-0", solved=0.9),
    ]  # fmt: skip
    one, pair = seed_groups(teams)
    assert (one.name, one.seeds, one.baseline, one.differences) == ("one", (0, 1), "", {})
    assert (pair.name, pair.seeds, pair.baseline) == ("pair", (1, 0, 2), "one")
    assert {name: over.mean for name, over in pair.metrics.items()} == pytest.approx(
        {"solved": 0.7}
    )
    change = pair.differences["solved"]
    assert change.mean == pytest.approx(0.25)
    assert change.tasks == 2
    half = 12.7062 * 0.05
    assert change.limits == pytest.approx((0.25 - half, 0.25 + half), abs=1e-4)


def test_groups_without_a_common_seed_are_not_compared() -> None:
    labels = ("a-seed-0", "a-seed-1", "b-seed-2", "b-seed-3")
    groups = seed_groups([team(label, solved=0.5) for label in labels])
    assert [(group.baseline, group.differences) for group in groups] == [("", {}), ("", {})]
