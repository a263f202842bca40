"""Metrics as curves by recipe and seed, with spread; constant metrics are not drawn."""

from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import pytest
from support.report_runs import make_training

from collab.report.panels import Panel, training_panels
from collab.report.report import make_report
from collab.report.runs import Run, cohorts_of, read_run, read_runs


def named(panels: list[Panel], title: str) -> Panel:
    [panel] = [panel for panel in panels if panel.title == title]
    return panel


def run_of(rows: list[dict[str, float]], path: str = "run") -> Run:
    numbered = [{"step": float(n), **row} for n, row in enumerate(rows, start=1)]
    return Run(path, Path(path), steps=numbered, is_training=True)


def panels_of(*runs: Run) -> list[Panel]:
    return training_panels(cohorts_of(runs))


def test_band_of_a_single_run_is_its_standard_deviation(trained: Path) -> None:
    panel = named(panels_of(read_run(trained)), "Joint return in training")
    [line] = panel.series
    assert line.y == [2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.75, 4.0]
    assert line.low == [value - 0.5 for value in line.y]
    assert line.high == [min(4.0, value + 0.5) for value in line.y], "no return is above 4"
    assert "standard deviation of the step's episodes" in panel.note


def test_seeds_of_one_recipe_have_mean_and_band(tmp_path: Path) -> None:
    runs = [read_run(make_training(tmp_path / str(seed), seed=seed)) for seed in range(3)]
    panel = named(panels_of(*runs), "Gradient norm")
    *thin, line = [series for series in panel.series if series.label == "aux"]
    assert [series.style for series in thin] == ["thin"] * 3
    for place, values in enumerate(zip(*(series.y for series in thin), strict=True)):
        assert line.y[place] == pytest.approx(fmean(values))
        assert line.high[place] - line.y[place] == pytest.approx(stdev(values))
    assert "across seeds" in panel.note


def test_recipes_are_labelled_by_what_differs(tmp_path: Path) -> None:
    paths = [make_training(tmp_path / f"a{seed}", seed=seed) for seed in range(2)]
    paths.append(make_training(tmp_path / "b", rate=3e-4))
    cohorts = cohorts_of([read_run(path) for path in paths])
    assert [cohort.label for cohort in cohorts] == [
        "learning_rate 0.0001, 2 seeds",
        "learning_rate 0.0003",
    ]


def test_runs_with_different_functions_are_not_seeds_of_one_recipe(tmp_path: Path) -> None:
    paths = [make_training(tmp_path / name, seed=seed) for seed, name in enumerate("abc")]
    for path, text in zip(paths, ("1", "1", "2"), strict=True):
        (path / "functions").mkdir()
        (path / "functions" / "mine.py").write_text(text)
    cohorts = cohorts_of([read_run(path) for path in paths])
    assert [[run.name for run in cohort.runs] for cohort in cohorts] == [["a", "b"], ["c"]]


def test_missing_shares_are_zero() -> None:
    rows = [{"time/sampling": 1.0}, {"time/sampling": 0.25, "time/update": 0.75}]
    panel = named(panels_of(run_of(rows)), "Share of time")
    assert panel.stacked
    assert {series.label: series.y for series in panel.series} == {
        "sampling": [1.0, 0.25],
        "update": [0.0, 0.75],
    }


def test_averaged_shares_end_with_the_shortest_seed() -> None:
    runs = [run_of([{"time/sampling": 1.0}] * steps, str(steps)) for steps in (4, 2)]
    runs = [replace(run, recipe={"name": "pair"}) for run in runs]
    [series] = named(panels_of(*runs), "Share of time").series
    assert (series.x, series.y) == ([1.0, 2.0], [1.0, 1.0])


def test_long_curves_are_smoothed() -> None:
    run = run_of([{"tokens_per_second": float(n % 2)} for n in range(2000)])
    panel = named(panels_of(run), "Tokens per second")
    thin, bold = panel.series
    assert (thin.style, bold.style) == ("thin", "line")
    assert fmean(bold.y) == pytest.approx(0.5, abs=0.02)
    assert max(bold.y) - min(bold.y) < max(thin.y) - min(thin.y)


def test_constant_metrics_are_listed_in_words(trained: Path) -> None:
    report = make_report(read_runs([trained]))
    assert "dead groups 0 %" in report.constants
    assert "Dead groups" not in {panel.title for panel in report.panels}


def test_held_out_points_have_intervals(trained: Path) -> None:
    panel = named(make_report(read_runs([trained])).panels, "Joint return, held out")
    assert [(series.label, series.x) for series in panel.series] == [
        ("sampled", [0.0, 8.0]),
        ("greedy", [0.0, 8.0]),
    ]
    for series in panel.series:
        for low, middle, high in zip(series.low, series.y, series.high, strict=True):
            assert low < middle < high


def test_axes_end_at_the_largest_possible_value(trained: Path) -> None:
    """Returns range from 0 to their maximum, shares from 0 to 1, points from 0 to their weight."""
    panels = make_report(read_runs([trained])).panels
    result = {panel.title: panel.most for panel in panels}
    assert result["Joint return, held out"] == result["Joint return in training"] == 4.0
    assert result["Solved, held out"] == 1.0
    assert result["Reward by turn"] == 2.0
    assert result["tests"] == 1.0
    assert result["Length of a response, tokens"] is None


def test_alarms_are_shown(tmp_path: Path) -> None:
    path = make_training(tmp_path / "run", steps=12)
    metrics = path / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"groups/dead": 0.0', '"groups/dead": 1.0'))
    alarms = make_report(read_runs([path])).alarms
    assert [alarm.step for alarm in alarms if "of the groups are dead" in alarm.text] == [10]


def labels_of(*paths: Path) -> list[str]:
    return [cohort.label for cohort in cohorts_of([read_run(path) for path in paths])]


def make_changed(folder: Path, changes: dict[str, str]) -> Path:
    """A training run with changed words in its recipe."""
    recipe = make_training(folder) / "training.yaml"
    text = recipe.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    recipe.write_text(text)
    return folder


def test_run_of_an_older_version_has_the_same_recipe(tmp_path: Path) -> None:
    older, now = (
        make_changed(tmp_path / name, {"group_size: 4": f"group_size: 4\n  {key}"})
        for name, key in {"older": "ranks: {limit: 9.0}", "now": "rank_timeout: 9.0"}.items()
    )
    assert labels_of(older, now) == ["older + now"]


def test_recipe_with_a_long_difference_is_labeled_by_its_folder(tmp_path: Path) -> None:
    long_recipe = make_changed(
        tmp_path / "long", {"aux: {parser": f"aux: {{role: {'be ' * 20}, parser"}
    )
    assert labels_of(make_training(tmp_path / "a"), long_recipe) == ["a", "long"]


def test_runs_whose_agents_act_in_another_order_are_not_seeds_of_one_recipe(tmp_path: Path) -> None:
    agents = "aux: {parser: python}, main: {parser: python}"
    swapped = "main: {parser: python}, aux: {parser: python}"
    runs = [make_training(tmp_path / "run"), make_changed(tmp_path / "swapped", {agents: swapped})]
    assert labels_of(*runs) == ["agents aux, main", "agents main, aux"]
