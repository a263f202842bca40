"""Comparisons: means, intervals, and comparable episodes."""

from pathlib import Path

import pytest
from support.report_runs import make_episode, make_run

from collab.evaluation.table import CellForm, ResultTable, TableCell, format_value
from collab.records import Score
from collab.report.episodes import ShownEpisode, episode_data
from collab.report.page import Texts
from collab.report.report import HtmlReport, make_report
from collab.report.runs import read_run, read_runs


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
    report = make_report(read_runs([trained]))
    table = named(report, "Problem by problem")
    assert [cell.text for cell in column(table, "Problem")] == [f"numbers/{n}" for n in range(4)]
    for problem, value in zip(column(table, "Problem"), column(table, "Return"), strict=True):
        first, last = (report.shown[int(n)].episode for n in value.pair.split("/"))
        assert (first.task, last.task) == (problem.text, problem.text)
        assert last.group - first.group == 4


def test_each_run_has_a_column_and_each_problem_a_row(played: Path, tmp_path: Path) -> None:
    episodes = [make_episode(n, task=f"numbers/{n}", group=n, skill=1.0) for n in range(3)]
    other = make_run(tmp_path / "other", episodes)
    report = make_report(read_runs([played, other]))
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
