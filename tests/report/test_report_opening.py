"""What a report opens with: one sentence, and what was reached, with intervals."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest
from support.report_runs import make_episode, make_run, make_training, page_of

from collab.evaluation.results import Estimate
from collab.report.opening import OpeningCard, PlotRow, in_words, make_plot
from collab.report.report import HtmlReport, make_report
from collab.report.runs import read_all, read_run


def report_of(*folders: Path) -> HtmlReport:
    return make_report(read_all(folders))


def value(mean: float, low: float | None = None, high: float | None = None) -> Estimate:
    ends = (mean if end is None else end for end in (low, high))
    return Estimate(mean=mean, low=next(ends), high=next(ends), tasks=1)


def card(report: HtmlReport, title: str) -> OpeningCard:
    [found] = [card for card in report.opening.cards if card.title == title]
    return found


def rewrite(folder: Path, **of_task: float) -> None:
    """Give every held-out result of the last evaluation these values."""
    file = folder / "metrics.jsonl"
    *rows, last = map(json.loads, file.read_text().splitlines())
    for results in (last["sampled"], last["greedy"]):
        for result in results.values():
            result.update(of_task)
    file.write_text("".join(json.dumps(row) + "\n" for row in (*rows, last)))


def test_training_opens_with_before_and_after(trained: Path) -> None:
    rewrite(trained, solved=1.0)
    recipe = trained / "training.yaml"
    recipe.write_text(recipe.read_text().replace("{tasks: test}", "{tasks: test, samples: 4}"))
    report = report_of(trained)
    assert report.opening.sentence == (
        "The team solves 100 % of held-out problems, 25 % before (6 problems, 4 samples each)."
    )
    solved = card(report, "Solved, held out")
    assert (solved.before, solved.after, solved.tone) == ("25.0 %", "100.0 %", "good")


def test_gains_are_paired_and_of_the_maximum(trained: Path) -> None:
    first, last = read_run(trained).evaluations
    gain = fmean(last.sampled[t].joint_return - first.sampled[t].joint_return for t in last.sampled)
    found = card(report_of(trained), "Return, held out")
    assert found.most == "4.00"
    assert found.gain.startswith(f"{gain:+.2f} (")
    [plot] = found.plots
    assert [line.label for line in plot.rows] == ["sampled", "greedy"]
    assert [mark.before for mark in plot.rows[0].marks] == [True, False]
    assert plot.ticks[-1].text == "4"
    before, after = plot.rows[0].interval.split(" → ")
    low, high = map(float, before.split(" to "))
    assert low < fmean(first.sampled[t].joint_return for t in last.sampled) < high
    assert after != before


def test_a_difference_that_may_be_chance_says_so(trained: Path) -> None:
    file = trained / "metrics.jsonl"
    rows = list(map(json.loads, file.read_text().splitlines()))
    rows[-1]["sampled"] = rows[0]["sampled"]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert report_of(trained).opening.sentence.endswith("; the difference may be chance.")


def test_several_recipes_are_rows_of_one_plot(tmp_path: Path) -> None:
    folders = [make_training(tmp_path / "a"), make_training(tmp_path / "b", rate=3e-4)]
    rewrite(folders[1], solved=0.9)
    report = report_of(*folders)
    assert report.opening.sentence.startswith("With learning_rate 0.0003, the team solves 90 %")
    [plot] = card(report, "Solved, held out").plots
    labels = [f"learning_rate {rate}, {mode}" for rate in ("0.0001", "0.0003")
              for mode in ("sampled", "greedy")]  # fmt: skip
    rows = [line.label for line in plot.rows]
    assert set(rows) <= {*labels, *(label.partition(",")[0] for label in labels)}


def test_training_without_held_out_problems_tells_its_own_returns(trained: Path) -> None:
    file = trained / "metrics.jsonl"
    lines = [line for line in file.read_text().splitlines() if "step.finished" in line]
    file.write_text("\n".join(lines) + "\n")
    report = report_of(trained)
    assert report.opening.cards == []
    assert report.opening.sentence == (
        "In training the team earns 4.00 of 4.00 in step 8, 2.25 in step 1; no held-out evaluation,"
        " so no before/after comparison."
    )


def test_runs_are_rows_of_one_plot(played: Path, tmp_path: Path) -> None:
    episodes = [make_episode(n, task=f"numbers/{n}", group=n, skill=1.0) for n in range(4)]
    report = report_of(played, make_run(tmp_path / "other", episodes))
    assert report.opening.sentence.startswith("other solves 100 % of the problems, played ")
    assert card(report, "Return").most == "4.00"
    [plot] = card(report, "Solved").plots
    assert [line.label for line in plot.rows] == ["played", "other"]
    other = plot.rows[1]
    low, high = other.interval.split(" to ")
    assert (other.text, high) == ("100.0 %", "100.0")
    assert float(low) < 90
    assert other.marks[0].at == 100.0


def test_a_run_of_one_problem_says_how_often_it_was_solved(tmp_path: Path) -> None:
    one = [make_episode(1, skill=0.0)]
    several = [make_episode(n, sample=n, skill=1.0) for n in range(3)]
    told = [report_of(make_run(tmp_path / name, episodes)).opening.sentence
            for name, episodes in (("one", one), ("several", several))]  # fmt: skip
    assert told[0].startswith("The team does not solve numbers/0; return ")
    assert told[1] == "The team solves numbers/0 in 3 of 3 samples; mean return 4.00 of 4.00."


def test_runs_of_different_problems_say_so(played: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", [make_episode(1, task="numbers/77")])
    assert "played different problems" in report_of(played, other).opening.note


def test_the_largest_return_counts_turns_that_were_not_played(played: Path, tmp_path: Path) -> None:
    early = [
        episode.model_copy(update={"turns": episode.turns[:1], "horizon": 3})
        for episode in read_run(played).episodes
    ]
    report = report_of(make_run(tmp_path / "early", early))
    assert card(report, "Return").most == "6.00"


def test_the_page_opens_with_the_sentence_and_folds_the_settings(
    trained: Path, tmp_path: Path
) -> None:
    page = page_of(trained, out=tmp_path / "report.html")
    places = [page.index(part) for part in ('class="outcome"', 'id="learning"', "<dl")]
    assert places == sorted(places)
    folded = page[page.index('id="settings"') :]
    assert folded.index("<details>") < folded.index("<dl")


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "50 %"), (0.825, "83 %"), (0.998, "99.8 %"), (0.0, "0 %")]
)
def test_shares_in_a_sentence(value: float, text: str) -> None:
    assert in_words(value, "share") == text


def test_zero_is_marked_in_differences() -> None:
    rows = [PlotRow("b", [value(0.2, 0.1, 0.3)], "+20 %"), PlotRow("c", [value(-0.1)], "-10 %")]
    plot = make_plot("Difference from a", rows, "share", change=True)
    assert plot.zero is not None
    assert 0 < plot.zero < plot.rows[0].marks[0].low
    assert plot.rows[1].marks[0].at < plot.zero
    assert make_plot("Difference from a", rows[:1], "share", change=True).zero == 0.0


def test_all_rows_are_on_one_scale_up_to_the_maximum() -> None:
    rows = [PlotRow("a", [value(1.0)], "1"), PlotRow("b", [value(3.0, 2.0, 5.0)], "3")]
    plot = make_plot("Return", rows, "points", 5.0)
    assert [line.marks[0].at for line in plot.rows] == [20.0, 60.0]
    assert (plot.rows[1].marks[0].low, plot.rows[1].marks[0].high) == (40.0, 100.0)
    assert plot.zero is None
    assert plot.rows[1].in_words == "b: 3"
