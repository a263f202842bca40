"""Curves, tokens to a level, and paired differences of cells with known returns."""

import pytest

from collab.study.results import (
    CellResult,
    Point,
    differences,
    mean_over_budget,
    tokens_to_reach,
    trainer_results,
    value_at,
)

MARKS = (0, 50, 100)


def cell(
    trainer: str, seed: int, *values: float, task: str = "t", status: str = "done"
) -> CellResult:
    points = tuple(Point(tokens=50 * n, value=value) for n, value in enumerate(values))
    return CellResult(
        name=f"{task}-{trainer}-{seed}",
        task=task,
        trainer=trainer,
        seed=seed,
        status=status,
        points=points,
        maximum=10.0,
    )


def test_values_are_interpolated_linearly() -> None:
    points = [Point(tokens=0, value=1), Point(tokens=60, value=4), Point(tokens=110, value=9)]
    assert [value_at(points, mark) for mark in (0, 20, 60, 100, 999)] == [1, 2, 4, 8, 9]


def test_tokens_to_a_level_are_interpolated_or_none() -> None:
    points = [Point(tokens=0, value=1), Point(tokens=50, value=3), Point(tokens=100, value=2)]
    assert tokens_to_reach(points, 2.0, 100) == 25.0
    assert tokens_to_reach(points, 0.5, 100) == 0.0
    assert tokens_to_reach(points, 3.5, 100) is None
    assert tokens_to_reach(points, 2.0, 20) is None, "the last step ended beyond the budget"


def test_learning_earlier_raises_the_mean_over_the_budget() -> None:
    fast_curve = [Point(tokens=0, value=0), Point(tokens=50, value=8), Point(tokens=100, value=8)]
    slow_curve = [Point(tokens=0, value=0), Point(tokens=50, value=0), Point(tokens=100, value=8)]
    assert (mean_over_budget(fast_curve, 100), mean_over_budget(slow_curve, 100)) == (6.0, 2.0)


def test_the_mean_over_the_budget_counts_every_evaluation() -> None:
    points = [Point(tokens=n, value=value) for n, value in ((0, 0), (60, 6), (120, 6))]
    assert mean_over_budget(points, 100) == pytest.approx(4.2)


def test_level_is_halfway_to_the_best_final_value() -> None:
    cells = [cell("a", seed, 0, 2, 4) for seed in (0, 1)]
    cells += [cell("b", seed, 0, 4, 8) for seed in (0, 1)]
    a, b = trainer_results(cells, MARKS)
    assert (a.level, b.level) == (4.0, 4.0)
    assert (a.tokens_to_level, b.tokens_to_level) == ((100.0, 100.0), (50.0, 50.0))
    assert [point.mean for point in b.curve] == [0, 4, 8]


def test_no_level_is_reached_if_every_trainer_gets_worse() -> None:
    results = trainer_results([cell("a", 0, 8, 6, 4), cell("b", 0, 8, 7, 6)], MARKS)
    assert [trainer.tokens_to_level for trainer in results] == [(None,), (None,)]
    [equal] = trainer_results([cell("a", 0, 8, 8, 8)], MARKS)
    assert equal.tokens_to_level == (0.0,)


def test_a_finished_cell_without_an_evaluation_is_a_gap() -> None:
    left_out = "so the study's numbers do not include it"
    assert cell("a", 0).gap.endswith(f"is done, but has no readable evaluation, {left_out}")
    assert cell("a", 0, 1).gap == ""
    failed = cell("a", 0, 1, status="failed").model_copy(update={"message": "no memory"})
    assert failed.gap.endswith(f"is failed, {left_out}: no memory")


def test_differences_are_paired_by_task_and_seed() -> None:
    """Seeds differ by up to 5 and trainers by 1; pairing removes the difference between seeds."""
    cells = [
        cell(name, seed, 0, 0, 5 * seed % 7 + (name == "b"))
        for seed in range(6)
        for name in ("a", "b")
    ]
    [found] = differences(cells, MARKS)
    assert (found.trainer, found.baseline, found.pairs) == ("b", "a", 6)
    assert found.end.mean == pytest.approx(1.0)
    a, b = trainer_results(cells, MARKS)
    assert b.curve[-1].limits, "the six results differ"
    assert b.curve[-1].limits[0] < a.curve[-1].mean, "the unpaired intervals overlap"
    assert found.end.limits is None, "all paired differences are equal"


def test_a_cell_without_its_pair_is_left_out() -> None:
    cells = [cell("a", 0, 0, 1, 2), cell("b", 0, 0, 1, 3), cell("b", 1, 0, 9, 9)]
    [found] = differences(cells, MARKS)
    assert (found.pairs, found.end.mean) == (1, 1.0)
    unfinished = [cells[0], cell("b", 0, 0, 1, status="interrupted")]
    assert list(differences(unfinished, MARKS)) == []
    assert [result.trainer for result in trainer_results(unfinished, MARKS)] == ["a"]


def test_several_tasks_are_combined_as_shares_of_the_maximum() -> None:
    cells = [
        cell(name, 0, 0, 0, end, task=task)
        for task, ends in (("s", (1, 2)), ("t", (4, 7)))
        for name, end in zip("ab", ends, strict=True)
    ]
    of_s, of_t, over_all = differences(cells, MARKS)
    assert (of_s.end.mean, of_t.end.mean) == (1.0, 3.0)
    assert (over_all.task, over_all.pairs) == (None, 2)
    assert over_all.end.mean == pytest.approx(0.2)
    assert over_all.end.limits
    low, high = over_all.end.limits
    assert low < 0.2 < high


@pytest.mark.parametrize("gain", [0.0, 0.1])
@pytest.mark.parametrize(("seeds", "note"), [(1, "only 1"), (3, "all 3 equal")])
def test_constant_differences_have_no_interval(seeds: int, note: str, gain: float) -> None:
    cells = [
        cell(name, seed, 0.3, 0.7 * seed, 3.0 + seed / 7 + (gain if name == "b" else 0.0))
        for seed in range(seeds)
        for name in ("a", "b")
    ]
    [found] = differences(cells, MARKS)
    for change in (found.end, found.on_the_way):
        assert (change.low, change.high, change.tasks) == (None, None, seeds)
        assert change.interval_note == note
    before = trainer_results(cells, MARKS)[0].curve[0]
    assert (before.mean, before.limits) == (0.3, None)
