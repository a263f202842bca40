"""Held-out episodes: selection for display and comparison."""

from collections import Counter
from pathlib import Path

import pytest

from collab.evaluation.table import ResultTable
from collab.report.report import HtmlReport, make_report
from collab.report.runs import read_runs
from collab.trainers.training.events import HeldOut


def changes(report: HtmlReport) -> ResultTable:
    [table] = [table for table in report.tables if table.title == "Held-out problems one by one"]
    return table


def test_episodes_before_and_after_are_shown(held_out: Path) -> None:
    report = make_report(read_runs([held_out]))
    assert Counter((shown.phase, shown.mode) for shown in report.shown) == {
        ("training", None): 32,
        ("held out before", "sampled"): 12,
        ("held out before", "greedy"): 6,
        ("held out after", "sampled"): 12,
        ("held out after", "greedy"): 6,
    }


@pytest.mark.parametrize("mode", ["sampled", "greedy"])
def test_gains_link_to_the_same_problem_before_and_after(held_out: Path, mode: str) -> None:
    report = make_report(read_runs([held_out]))
    table = changes(report)
    assert [row[0].text for row in table.rows] == [f"numbers/{n}" for n in range(8, 14)]
    for row in table.rows:
        gain = row[table.columns.index(f"{mode.capitalize()} gain")]
        before, after = (report.shown[int(place)] for place in gain.pair.split("/"))
        assert (before.phase, after.phase) == ("held out before", "held out after")
        assert (before.mode, after.mode) == (mode, mode)
        assert (before.episode.id, after.episode.id) == (f"{row[0].text}#0", f"{row[0].text}#0")


def test_training_table_excludes_held_out_problems(held_out: Path) -> None:
    report = make_report(read_runs([held_out]))
    [table] = [table for table in report.tables if table.title == "Problem by problem"]
    assert [row[0].text for row in table.rows] == [f"numbers/{n}" for n in range(4)]


def test_unfinished_evaluation_does_not_count_as_the_result(held_out: Path) -> None:
    """A run killed during an evaluation has no results of it."""
    file = held_out / "evaluation.jsonl"
    line = HeldOut.model_validate_json(file.read_text().splitlines()[0])
    with file.open("a") as stream:
        stream.write(line.model_copy(update={"step": 12}).model_dump_json() + "\n")
    report = make_report(read_runs([held_out]))
    assert {shown.step for shown in report.shown if shown.mode} == {0, 8}


def test_thinned_episodes_stay_in_pairs(held_out: Path) -> None:
    report = make_report(read_runs([held_out]), max_episodes=34)
    played = [shown for shown in report.shown if shown.mode]
    by_task = Counter(shown.episode.task for shown in played)
    assert by_task == {"numbers/8": 6, "numbers/10": 6, "numbers/13": 6}
    linked = [row[0].text for row in changes(report).rows if row[1].pair]
    assert linked == list(by_task)
    assert "34 of 68 episodes are in this report" in report.notes[0]
