"""Complete, truncated, broken and missing runs."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.episodes import make_episode, make_score
from support.report_runs import make_training

from collab.errors import RecordError
from collab.report.report import make_report
from collab.report.runs import read_run, read_runs


def test_a_training_run(trained: Path) -> None:
    run = read_run(trained)
    assert run.is_training
    assert [row["step"] for row in run.steps] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [evaluation.step for evaluation in run.evaluations] == [0, 8]
    assert [run.step_of(episode) for episode in run.episodes[::4]] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_steps_are_derived_from_groups(trained: Path) -> None:
    recipe = trained / "training.yaml"
    recipe.write_text(recipe.read_text().replace("tasks_per_step: 1", "tasks_per_step: 2"))
    run = read_run(trained)
    assert [run.step_of(episode) for episode in run.episodes[::4]] == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("name", ["episodes.jsonl", "metrics.jsonl"])
def test_partial_last_line_is_skipped(trained: Path, name: str) -> None:
    data = (trained / name).read_bytes()
    (trained / name).write_bytes(data[:-20])
    run = read_run(trained)
    assert len(run.episodes) == 32 - (name == "episodes.jsonl")
    assert len(run.evaluations) == 2 - (name == "metrics.jsonl")
    [complaint] = run.complaints
    assert f"{name}: skipped the last line" in complaint


def test_invalid_metrics_lines_are_reported(trained: Path) -> None:
    with (trained / "metrics.jsonl").open("a") as stream:
        stream.write('nonsense\n[1]\n{"type": "step.finished"}\n')
        stream.write('{"type": "evaluation.finished", "step": 3, "sampled": 1}\n')
    run = read_run(trained)
    assert len(run.steps) == 8
    assert [complaint.partition(": neither")[0][-7:] for complaint in run.complaints] == [
        "line 11",
        "line 12",
        "line 13",
        "line 14",
    ]


def test_non_finite_metrics_are_omitted(trained: Path) -> None:
    with (trained / "metrics.jsonl").open("a") as stream:
        values = f'"return/mean": NaN, "tokens": 1{"0" * 400}, "solved": 1'
        stream.write(f'{{"type": "step.finished", "step": 9, {values}}}\n')
        stream.write('{"type": "step.finished", "step": Infinity}\n')
    run = read_run(trained)
    assert run.steps[-1] == {"step": 9, "solved": 1}
    assert run.complaints[0].endswith("evaluation: cannot convert float infinity to integer")


@pytest.mark.parametrize("text", ["{", "- a list", "\xff"])
def test_a_broken_recipe(played: Path, text: str) -> None:
    (played / "recipe.yaml").write_bytes(text.encode("latin-1"))
    run = read_run(played)
    assert len(run.episodes) == 8
    assert "recipe" in run.complaints[0]


def test_description_that_is_no_text_is_shown_as_it_is(played: Path) -> None:
    (played / "recipe.yaml").write_text("description: [two, agents]\n")
    assert make_report(read_runs([played])).lead == "['two', 'agents']"


def test_unfinished_run_is_noted(played: Path) -> None:
    about = json.loads((played / "run.json").read_text())
    (played / "run.json").write_text(json.dumps({**about, "status": "running", "samples": 5}))
    report = make_report(read_runs([played]))
    assert report.runs[0].status == "running"
    assert "the run is still running, or was killed: 8 of 20 episodes finished" in report.notes


def _write_run(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "does not exist"),
        (lambda folder: folder.mkdir(), "is not a run's folder"),
        (lambda folder: _write_run(folder / "x"), "/run` lists the runs in it"),
        (lambda folder: folder.write_text("hello\n"), "has nothing to report"),
        (lambda folder: folder.write_text(""), "no readable episode or training step"),
    ],
)
def test_folder_with_nothing_to_report_is_refused(
    tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(tmp_path / "run")
    with pytest.raises(RecordError, match=message):
        read_runs([tmp_path / "run"])


def test_run_with_metrics_but_no_episodes_is_shown(trained: Path) -> None:
    (trained / "episodes.jsonl").unlink()
    report = make_report(read_runs([trained]))
    assert report.panels
    assert any("episodes.jsonl does not exist" in note for note in report.notes)


def test_unreadable_run_is_noted_next_to_readable_ones(played: Path, tmp_path: Path) -> None:
    report = make_report(read_runs([played, tmp_path / "none"]))
    assert [run.name for run in report.runs] == ["played"]
    assert any("none does not exist" in note for note in report.notes)


def test_notes_on_several_runs_name_the_run(played: Path, trained: Path) -> None:
    (played / "run.json").write_text('{"status": "interrupted"}')
    [note] = make_report(read_runs([played, trained])).notes
    assert note == "played: the run was interrupted: 8 episodes finished"


def test_runs_with_the_same_name_are_labeled_by_folder(tmp_path: Path) -> None:
    names = ["a/x/run", "b/x/run", "c/run"]
    runs = [make_training(tmp_path / name, seed=n) for n, name in enumerate(names)]
    assert [run.name for run in read_runs(runs).runs] == names


def test_report_time_grows_less_than_quadratically(tmp_path: Path) -> None:
    def seconds(turns: int) -> float:
        episode = make_episode("t", 0, *[make_score(solved=False)] * turns)
        (tmp_path / "episodes.jsonl").write_text(f"{episode.model_dump_json()}\n")
        started = time.process_time()
        make_report(read_runs([tmp_path]))
        return time.process_time() - started

    seconds(10)  # import modules before timing
    assert seconds(4000) < 10 * seconds(1000)
