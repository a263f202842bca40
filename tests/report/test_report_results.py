"""A report's tables: results with intervals, problems one by one, and held-out episodes."""

import json
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest
from support.report_runs import make_episode, make_run, make_training

from collab.evaluation.table import CellForm, ResultTable, TableCell, format_value, mean_cell
from collab.records import Score
from collab.report.episodes import ShownEpisode, episode_data
from collab.report.page import Texts
from collab.report.report import HtmlReport, make_report
from collab.report.runs import read_run, read_runs
from collab.trainers.training.events import HeldOut


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


def named(report: HtmlReport, title: str) -> ResultTable:
    [table] = [table for table in report.tables if table.title == title]
    return table


def column(table: ResultTable, name: str) -> list[TableCell]:
    place = table.columns.index(name)
    return [row[place] for row in table.rows]


def test_episode_solved_early_shows_its_horizon(played: Path) -> None:
    texts = Texts(1000)
    [first, *_] = read_run(played).episodes
    solved = first.turns[0].model_copy(
        update={"score": Score(reward=2.0, maximum=2.0, solved=True)}
    )
    early = first.model_copy(update={"turns": (solved,), "horizon": 3})
    data = episode_data(ShownEpisode(0, early), texts)
    assert (data["return"], data["largest_return"]) == (6.0, 6.0)
    assert (data["horizon"], data["absorbed"]) == (3, 2)
    assert episode_data(ShownEpisode(0, first), texts)["horizon"] is None


def test_problems_link_to_their_first_and_last_episodes(trained: Path) -> None:
    report = report_of(trained)
    table = named(report, "Problem by problem")
    assert [cell.text for cell in column(table, "Problem")] == [f"numbers/{n}" for n in range(4)]
    for problem, value in zip(column(table, "Problem"), column(table, "Return"), strict=True):
        first, last = (report.shown[int(n)].episode for n in value.pair.split("/"))
        assert (first.task, last.task) == (problem.text, problem.text)
        assert last.group - first.group == 4


def test_each_run_has_a_column_and_each_problem_a_row(played: Path, tmp_path: Path) -> None:
    episodes = [make_episode(n, task=f"numbers/{n}", group=n, skill=1.0) for n in range(3)]
    other = make_run(tmp_path / "other", episodes)
    report = report_of(played, other)
    table = named(report, "Problem by problem")
    assert table.columns == ["Problem", "played", "other"]
    problems = column(table, "Problem")
    assert [cell.text for cell in problems] == [f"numbers/{n}" for n in range(4)]
    assert [cell.interval for cell in column(table, "other")] == ["1 of 1 solved"] * 3 + [""]
    assert column(table, "other")[3].text == "-"
    first, second = (report.shown[int(n)] for n in problems[0].pair.split("/"))
    assert (first.run, second.run) == (0, 1)
    assert first.episode.task == second.episode.task == "numbers/0"


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [(0.5, "share", "+50.0 %"), (-0.0004, "share", "0.0 %"), (-1.234, "points", "−1.23")],
)
def test_signed_numbers_are_formatted(value: float, form: CellForm, text: str) -> None:
    assert format_value(value, form, signed=True) == text


def test_episodes_before_and_after_are_shown(held_out: Path) -> None:
    report = report_of(held_out)
    assert Counter((shown.phase, shown.mode) for shown in report.shown) == {
        ("training", None): 32,
        ("held out before", "sampled"): 12,
        ("held out before", "greedy"): 6,
        ("held out after", "sampled"): 12,
        ("held out after", "greedy"): 6,
    }


@pytest.mark.parametrize("mode", ["sampled", "greedy"])
def test_gains_link_to_the_same_problem_before_and_after(held_out: Path, mode: str) -> None:
    report = report_of(held_out)
    table = named(report, "Held-out problems one by one")
    assert [row[0].text for row in table.rows] == [f"numbers/{n}" for n in range(8, 14)]
    for row in table.rows:
        gain = row[table.columns.index(f"{mode.capitalize()} gain")]
        before, after = (report.shown[int(place)] for place in gain.pair.split("/"))
        assert (before.phase, after.phase) == ("held out before", "held out after")
        assert (before.mode, after.mode) == (mode, mode)
        assert (before.episode.id, after.episode.id) == (f"{row[0].text}#0", f"{row[0].text}#0")


def test_training_table_excludes_held_out_problems(held_out: Path) -> None:
    report = report_of(held_out)
    table = named(report, "Problem by problem")
    assert [row[0].text for row in table.rows] == [f"numbers/{n}" for n in range(4)]


def test_unfinished_evaluation_does_not_count_as_the_result(held_out: Path) -> None:
    """A run killed during an evaluation has no results of it."""
    file = held_out / "evaluation.jsonl"
    line = HeldOut.model_validate_json(file.read_text().splitlines()[0])
    with file.open("a") as stream:
        stream.write(line.model_copy(update={"step": 12}).model_dump_json() + "\n")
    report = report_of(held_out)
    assert {shown.step for shown in report.shown if shown.mode} == {0, 8}


def test_thinned_episodes_stay_in_pairs(held_out: Path) -> None:
    report = make_report(read_runs([held_out]), max_episodes=34)
    played = [shown for shown in report.shown if shown.mode]
    by_task = Counter(shown.episode.task for shown in played)
    assert by_task == {"numbers/8": 6, "numbers/10": 6, "numbers/13": 6}
    linked = [
        row[0].text for row in named(report, "Held-out problems one by one").rows if row[1].pair
    ]
    assert linked == list(by_task)
    assert "34 of 68 episodes are in this report" in report.notes[0]
