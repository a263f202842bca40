"""A report begins with its results and their intervals."""

import json
from pathlib import Path
from statistics import fmean

from support.report_runs import make_episode, make_run, make_training

from collab.evaluation.table import ResultTable, mean_cell
from collab.report.report import HtmlReport, make_report
from collab.report.runs import read_run, read_runs


def report_of(*folders: Path) -> HtmlReport:
    return make_report(read_runs(folders))


def opened(report: HtmlReport, title: str) -> ResultTable:
    [table] = [table for table in report.results if table.title.startswith(title)]
    return table


def rewrite(folder: Path, **of_task: float) -> None:
    """Set these values in every held-out result of the last evaluation."""
    file = folder / "metrics.jsonl"
    *rows, last = map(json.loads, file.read_text().splitlines())
    for results in (last["sampled"], last["greedy"]):
        for result in results.values():
            result.update(of_task)
    file.write_text("".join(json.dumps(row) + "\n" for row in (*rows, last)))


def test_training_opens_with_before_and_after(trained: Path) -> None:
    rewrite(trained, solved=1.0)
    report = report_of(trained)
    table = opened(report, "Solved, held out")
    assert table.note.startswith("6 held-out problems. Gains are paired by problem.")
    _, before, after, gain = table.rows[0]
    assert (before.text, after.text, gain.tone) == ("25.0 %", "100.0 %", "good")


def test_gains_are_paired_and_show_the_maximum(trained: Path) -> None:
    first, last = read_run(trained).evaluations
    gain = fmean(last.sampled[t].joint_return - first.sampled[t].joint_return for t in last.sampled)
    table = opened(report_of(trained), "Return, held out")
    assert table.title.endswith("of 4.00")
    assert [row[0].text for row in table.rows] == ["sampled", "greedy"]
    _, before, after, change = table.rows[0]
    assert change.text == f"{gain:+.2f}"
    low, high = map(float, before.interval.split(" to "))
    assert low < fmean(first.sampled[t].joint_return for t in last.sampled) < high
    assert after.interval != before.interval


def test_title_and_note_name_what_the_means_are_of(tmp_path: Path) -> None:
    seeds = [make_training(tmp_path / str(seed), seed=seed) for seed in range(3)]
    rows = (seeds[2] / "metrics.jsonl").read_text().splitlines()
    (seeds[2] / "metrics.jsonl").write_text("\n".join(rows[:-1]) + "\n")
    other = make_training(tmp_path / "other", rate=1.0)
    rewrite(other, joint_return=9.0)
    table = opened(report_of(*seeds, other), "Return, held out")
    assert table.note.startswith("6 held-out problems, mean of 2 seeds.")
    assert table.title.endswith("of at most 9.00")


def test_training_without_held_out_problems_opens_with_its_curves(trained: Path) -> None:
    file = trained / "metrics.jsonl"
    lines = [line for line in file.read_text().splitlines() if "step.finished" in line]
    file.write_text("\n".join(lines) + "\n")
    report = report_of(trained)
    assert report.results == []
    assert report.panels


def test_runs_are_columns_of_one_table(played: Path, tmp_path: Path) -> None:
    episodes = [make_episode(n, task=f"numbers/{n}", group=n, skill=1.0) for n in range(4)]
    report = report_of(played, make_run(tmp_path / "other", episodes))
    table = opened(report, "Results")
    assert table.columns == ["", "played", "other"]
    rows = {row[0].text: row[2] for row in table.rows}
    assert rows["return at most"].text == "4.00"
    assert rows["solved %"].text.startswith("100.0 [")
    assert rows["solved %"].whisker[0] < 90
    assert rows["solved %"].whisker[1:] == (100.0, 100.0)


def test_runs_without_a_score_are_named_below_the_table(played: Path, tmp_path: Path) -> None:
    scored = make_episode(0, task="rows/0")
    turns = tuple(turn.model_copy(update={"score": None}) for turn in scored.turns)
    asked = make_run(tmp_path / "asked", [scored.model_copy(update={"turns": turns})])
    table = opened(report_of(played, asked), "Results")
    assert table.columns == ["", "played"]
    assert table.note.endswith("Without a score: asked.")
    assert report_of(asked).results == []


def test_whiskers_scale_to_the_maximum_and_changes_center_on_zero() -> None:
    assert mean_cell(3.0, (2.0, 5.0), "points", largest=5.0).whisker == (40.0, 60.0, 100.0)
    assert mean_cell(0.0, (-0.5, 2.0), "share", change=True, largest=1.0).whisker == (
        25.0,
        50.0,
        100.0,
    )
    assert mean_cell(3.0, (2.0, 5.0), "points").whisker == ()


def test_several_recipes_are_rows_of_one_table(tmp_path: Path) -> None:
    folders = [make_training(tmp_path / "a"), make_training(tmp_path / "b", rate=3e-4)]
    rewrite(folders[1], solved=0.9)
    report = report_of(*folders)
    rows = [row[0].text for row in opened(report, "Solved, held out").rows]
    labels = [f"learning_rate {rate}, {mode}" for rate in ("0.0001", "0.0003")
              for mode in ("sampled", "greedy")]  # fmt: skip
    assert set(rows) <= {*labels, *(label.partition(",")[0] for label in labels)}
