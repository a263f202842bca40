"""`collab study`: cells, folders, resuming, failures; training runs in this process."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.studies import STUDY, collab, results, train_here

from collab.errors import RecipeError, RecordError
from collab.recipe.documents import parse_yaml
from collab.runs.atomic import Lock
from collab.study import study as room
from collab.study.spec import StudySpec, cells_of, load_study
from collab.study.study import choose_jobs
from collab.trainers import Plan


def test_every_cell_is_a_run_in_one_table(project: Path) -> None:
    out = collab("s.yaml", "--jobs", "1").stdout
    result = results(project)
    names = [f"game-{t}-seed-{s}" for s in (0, 1) for t in ("magrpo", "cross")]
    assert [cell.name for cell in result.cells] == names
    assert result.status == "done"
    assert result.marks == (0, 50, 100)
    for cell in result.cells:
        assert cell.points[0].tokens == 0
        assert cell.points[-1].tokens >= 100
        assert any(50 <= point.tokens < 100 for point in cell.points)
        assert (project / "studies/s" / cell.name / "training.yaml").is_file()
    assert [t.trainer for t in result.trainers] == ["magrpo", "cross"]
    assert [(d.trainer, d.pairs) for d in result.differences] == [("cross", 2)]
    assert "Tokens to level" in out
    assert "Against magrpo" in out
    page = (project / "studies/s/report.html").read_text()
    assert "At 100 generated tokens" in page
    assert "Against magrpo" in page


def test_only_unfinished_cells_are_resumed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `kill -9`, the second cell is at its first checkpoint with status `running`."""
    calls: list[list[str]] = []

    async def killed(arguments: Sequence[str], log: Path, **options: Any) -> tuple[int, str]:
        calls.append(list(arguments))
        status = await train_here(arguments, log, **options)
        if len(calls) == 2:
            about = log.parent / "run.json"
            about.write_text(json.dumps({**json.loads(about.read_text()), "status": "running"}))
            raise asyncio.CancelledError
        return status

    (project / "s.yaml").write_text(STUDY.replace("seeds: 2", "seeds: 1"))
    monkeypatch.setattr(room, "train", killed)
    study = room.Study(load_study(Path("s.yaml")), Path("studies/s"))
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(study.run(1, 1))
    first = results(project)
    assert first.status == "interrupted"
    assert [cell.status for cell in first.cells] == ["done", "interrupted"]
    calls.clear()
    calls.append([])
    calls.append([])
    collab("s.yaml", "--jobs", "1")
    assert [call[0] for call in calls[2:]] == ["--resume"], "only unfinished cells run"
    assert results(project).status == "done"
    assert results(project).cells[0].seconds == first.cells[0].seconds > 0


@pytest.mark.slow
def test_failed_cells_are_reported_and_retried_on_request(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(arguments: Sequence[str], log: Path, **options: Any) -> tuple[int, str]:
        if "magrpo" in arguments:
            return 1, "no room left"
        return await train_here(arguments, log, **options)

    (project / "s.yaml").write_text(STUDY.replace("seeds: 2", "seeds: 1"))
    monkeypatch.setattr(room, "train", fails)
    result = collab("s.yaml", "--jobs", "1", status=1)
    assert "failed game-magrpo-seed-0" in result.stdout
    assert "no room left" in result.stdout
    assert results(project).status == "failed"
    monkeypatch.setattr(room, "train", train_here)
    collab("s.yaml", "--jobs", "1", status=1)
    assert results(project).cells[0].message == "no room left", "a failed cell is not retried"
    collab("s.yaml", "--retry", "--jobs", "1")
    assert {cell.status for cell in results(project).cells} == {"done"}


def test_the_error_of_a_cell_is_that_of_its_latest_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log.txt").write_text("error: of an earlier process\n")
    code = "import sys; sys.exit('no such model')"
    monkeypatch.setattr(room, "python_command", lambda: (sys.executable, "-c", code))
    ended = asyncio.run(room.train([], tmp_path / "log.txt", threads=1))
    assert ended == (1, "no such model")


@pytest.mark.slow
def test_seeds_may_be_added_but_the_budget_may_not_change(project: Path) -> None:
    one = STUDY.replace("seeds: 2", "seeds: 1").replace("[magrpo, {", "[{")
    (project / "s.yaml").write_text(one)
    collab("s.yaml", "--jobs", "1")
    (project / "s.yaml").write_text(one.replace("seeds: 1", "seeds: 2"))
    collab("s.yaml", "--jobs", "1")
    assert [cell.seed for cell in results(project).cells] == [0, 1]
    (project / "s.yaml").write_text(one.replace("tokens: 100", "tokens: 200"))
    for options in ((), ("--dry-run",)):
        reason = collab("s.yaml", *options, status=2).stderr
        assert "tokens is 100 in the study studies/s, and 200 would change it" in reason


def test_dry_run_trains_nothing_and_lists_every_cell(project: Path) -> None:
    out = collab("s.yaml", "--dry-run").stdout
    assert out.count("game-") == 4
    assert "of 100 generated tokens" in out
    reason = json.loads(collab("s.yaml", "--dry-run", "--json").stdout)
    assert (len(reason["cells"]), reason["tokens"]) == (4, 100)
    assert not (project / "studies").exists()


def test_custom_algorithm_takes_one_line_in_a_study(project: Path) -> None:
    text = STUDY.replace("trainers: [magrpo, ", "trainers: [marloo, mine.py:mine, ")
    (project / "s.yaml").write_text(text.replace("seeds: 2", "seeds: 1"))
    cells = cells_of(load_study(Path("s.yaml")))
    assert [cell.trainer for cell in cells] == ["marloo", "mine", "cross"]
    trainer = cells[1].read()[0].trainer
    assert trainer
    assert trainer.algorithm.use.endswith("mine.py:mine")
    assert (trainer.tokens, trainer.steps, trainer.group_size) == (100, None, 4)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("tokens: 100", "tokens: 0"), "tokens"),
        (("seeds: 2", "seeds: 1000000000"), "seeds: must have at most 1000 items"),
        (("trainers: [magrpo,", "trainers: [cross,"), "trainers: cross occurs twice"),
        (("evaluations: 2", "evaluatons: 2"), "did you mean 'evaluations'?"),
        (
            ("  trainer.group_size: 4", "  trainer.steps: 4"),
            "trainer.steps belongs to the study itself; set tokens instead",
        ),
        (("  trainer.group_size: 4", "  seed: 4"), "seed belongs to the study itself; set seeds"),
        (
            ("  trainer.group_size: 4", "  trainer: {group_size: 4}"),
            "trainer belongs to the study itself; set trainers, or single keys such as",
        ),
        (
            ("settings:\n", "tasks: [words, game]\nsettings:\n  task: words\n"),
            "settings: task would replace every suite in tasks; leave out one of the two",
        ),
        (
            ("  trainer.group_size: 4", "  trainer.algorithm: cross"),
            "settings: trainer.algorithm would replace that of every trainer; set it in one",
        ),
        (("[magrpo,", "[magrop,"), "did you mean 'magrpo'?"),
        (('"8-9"', '"0-1"'), "both trained on and held out"),
        (("tokens: 100", "tasks: [game/3]\ntokens: 100"), "trainer.tasks: '3'}`"),
    ],
)
def test_mistakes_are_refused_before_any_work(
    project: Path, change: tuple[str, str], reason: str
) -> None:
    (project / "s.yaml").write_text(STUDY.replace(*change))
    assert reason in collab("s.yaml", status=2).stderr
    assert not (project / "studies").exists()


def test_a_folder_is_written_by_one_study_at_a_time(project: Path) -> None:
    spec = load_study(Path("s.yaml"))
    first = room.Study(spec, Path("studies/s"))
    with pytest.raises(RecordError, match="is being written by another process"):
        room.Study(spec, Path("studies/s"))
    first.close()


def test_cell_of_another_process_is_left(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of a killed study's cells may still be running."""
    monkeypatch.setattr(room, "EXIT_SECONDS", 0.1)
    study = room.Study(load_study(Path("s.yaml")), Path("studies/s"))
    cell_folder = study.folder.cell(study.cells[0])
    with Lock(cell_folder):
        (cell_folder / "training.yaml").touch()
        with pytest.raises(RecordError, match="is being written by another process"):
            study.folder.prepare(study.cells[0])
        assert (cell_folder / "training.yaml").exists()
    study.close()


def test_foreign_files_are_not_deleted(project: Path) -> None:
    spec, folder = load_study(Path("s.yaml")), Path("studies/s")
    notes = folder / cells_of(spec)[0].name / "notes.md"
    notes.parent.mkdir(parents=True)
    notes.touch()
    with pytest.raises(RecordError, match="studies/s contains other files"):
        room.Study(spec, folder)
    moved = notes.parent.rename("moved")
    study = room.Study(spec, folder)
    moved.rename(notes.parent)
    with pytest.raises(RecordError, match="contains other files"):
        study.folder.prepare(study.cells[0])
    assert notes.exists()
    (notes.parent / "log.txt").touch()
    assert not study.folder.prepare(study.cells[0]), "a cell killed before its record starts again"
    assert notes.exists()
    study.close()


def test_number_of_jobs_fits_the_machine() -> None:
    plans = [Plan("", 1, 1, 1, 1, 1, 1, memory={"all": size}) for size in (10, 40, 20)]
    assert choose_jobs(plans, cores=8, memory=1000) == 3
    assert choose_jobs(plans, cores=2, memory=1000) == 2
    assert choose_jobs(plans, cores=8, memory=90) == 2, "0.9 x 90 / 40"
    assert choose_jobs(plans, cores=8, memory=10) == 1


@pytest.mark.slow
@pytest.mark.parametrize("solves", [True, False])
def test_solved_share_is_compared_if_requested(project: Path, solves: bool) -> None:
    """The trainers start at different returns; a part with `solves` decides which episodes are
    solved."""
    text = STUDY.replace("seeds: 2", "seeds: 1").replace("tokens: 100", "tokens: 30")
    text = text.replace("evaluations: 2", "evaluations: 1\nmeasure: solved")
    text += f"  task.reward.parts.a_left.solves: {str(solves).lower()}\n"
    (project / "s.yaml").write_text(text)
    result = collab("s.yaml", "--jobs", "1", status=0 if solves else 2)
    if not solves:
        assert "set `solves: true` for a part" in result.stderr
        return
    cells = results(project).cells
    for cell in cells:
        rows = (project / "studies/s" / cell.name / "metrics.jsonl").read_text().splitlines()
        first = next(r for r in map(json.loads, rows) if r["type"] == "evaluation.finished")
        shares = [task["solved"] for task in first["sampled"].values()]
        assert cell.maximum == 1.0
        assert cell.points[0].value == sum(shares) / len(shares)
    assert "Share of held-out episodes solved" in result.stdout


def test_settings_may_hold_any_character() -> None:
    settings = {"agents.a.role": "Say 😀.", "agents.b.role": "\x7f\x85\ufffe"}
    spec = StudySpec(recipe="pocket", trainers=["magrpo"], tokens=9, settings=settings)
    [cell, *_] = cells_of(spec)
    assert r'agents.a.role="Say \U0001F600."' in cell.settings
    assert r'agents.b.role="\x7F\N\uFFFE"' in cell.settings


def test_settings_keep_the_types_of_their_values() -> None:
    values = [1e-8, 1e20, "1e-8", 3, "3", True, None, [], {"z": [1e-8], "a": "no"}, "\n ", "..."]
    settings = {f"task.{number}": value for number, value in enumerate(values)}
    spec = StudySpec(recipe="pocket", trainers=["magrpo"], tokens=9, settings=settings)
    texts = dict(setting.split("=", 1) for setting in cells_of(spec)[0].settings)
    assert str([parse_yaml(texts[key], key) for key in settings]) == str(values)


@pytest.mark.parametrize("file", ["own/mine.yaml", "own/mine.yml"])
def test_a_trainer_in_a_file_is_named_like_the_file(file: str) -> None:
    spec = StudySpec(recipe="pocket", trainers=[file], tokens=9)
    assert spec.trainers[0].name == "mine"


def test_suites_with_the_same_ending_are_named_by_full_address() -> None:
    spec = StudySpec(
        recipe="pocket",
        trainers=("magrpo",),
        tasks=("humaneval/0-5", "mbpp/0-5", "tasks/mine.yaml"),
        seeds=(0,),
        tokens=10,
    )
    cells = cells_of(spec)
    assert [cell.task for cell in cells] == ["humaneval/0-5", "mbpp/0-5", "mine"]
    assert [cell.name for cell in cells] == [
        "humaneval-0-5-magrpo-seed-0",
        "mbpp-0-5-magrpo-seed-0",
        "mine-magrpo-seed-0",
    ]


@pytest.mark.parametrize(
    ("trainers", "tasks"), [(["a b", "a-b"], ["game"]), (["magrpo"], ["a/b", "c/b", "a-b"])]
)
def test_cells_sharing_a_folder_are_refused(trainers: list[str], tasks: list[str]) -> None:
    spec = StudySpec(recipe="pocket", trainers=trainers, tasks=tuple(tasks), seeds=(0,), tokens=10)
    with pytest.raises(RecipeError, match="would use the same folder"):
        cells_of(spec)
