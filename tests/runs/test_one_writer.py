"""Only one process writes to a folder at a time, and duplicate records count once."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import processes
from support.files import unchanged
from support.processes import environment, wait_for
from support.programs.held_model import HELD
from support.trainer_recipes import make_game
from support.word_project import make_project
from typer.testing import CliRunner

import collab
from collab.cli.app import app
from collab.errors import RecordError
from collab.recipe import Recipe
from collab.recipe.writing import dump_recipe
from collab.records import read_episodes
from collab.records.run import open_run
from collab.report.runs import read_run
from collab.runs.about import mark_interrupted, read_about, write_about
from collab.runs.atomic import Lock
from collab.trainers import TrainingRun
from collab.trainers.training.data import read_recorded_episodes
from collab.trainers.training.events import StepFinished

TEAM = 'agents:\n  a: {prompt: "Say {{ task.word }}."}\n  b: {prompt: "Say {{ task.word }}."}\n'
LINE = ("pair", "-t", "words/0-3", "--model", "held.py:held")
REFUSED = "r is being written by another process; wait until it ends, or choose another folder"


@pytest.fixture
def project(here: Path) -> Path:
    make_project(here, TEAM, n_words=4)
    (here / "held.py").write_text(HELD)
    return here


@pytest.fixture
def game(tiny_words: Path, here: Path) -> Recipe:
    recipe = make_game(tiny_words, here, steps=2)
    (here / "r.yaml").write_text(dump_recipe(recipe))
    return recipe


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        env = environment()
        more = {"cwd": tmp_path, "stdout": subprocess.DEVNULL, "env": env}
        started.append(processes.start(*arguments, **more))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_folder_is_locked_once_and_removed_if_empty(tmp_path: Path) -> None:
    with Lock(tmp_path / "r"):
        with pytest.raises(RecordError, match=REFUSED):
            Lock(tmp_path / "r")
        (tmp_path / "r" / "file").touch()
    with Lock(tmp_path / "r"):
        (tmp_path / "r" / "file").unlink()
    assert not (tmp_path / "r").exists()


def test_lock_waits_for_the_previous_writer(tmp_path: Path) -> None:
    first = Lock(tmp_path / "r")
    (tmp_path / "r" / "log.txt").touch()

    async def both() -> None:
        second = asyncio.create_task(asyncio.to_thread(Lock, tmp_path / "r", seconds=10.0))
        await asyncio.sleep(0.2)
        assert not second.done()
        first.release()
        (await second).release()

    asyncio.run(both())


@pytest.mark.parametrize("command", ["run", "probe", "eval"])
def test_second_writer_fails_with_one_line(project: Path, command: str) -> None:
    with Lock(Path("r")):
        found = CliRunner().invoke(app, [command, *LINE, "-m", "echo", "--out", "r"])
    assert found.exit_code == 2, found.output
    assert REFUSED in found.stderr
    assert "defect" not in found.stderr
    assert not Path("r").exists(), "no file changed"


def test_second_run_in_the_same_folder_is_refused(project: Path, start: Callable[..., Any]) -> None:
    (project / "hold").touch()
    first = start("run", *LINE, "--out", "r")
    episodes = project / "r" / "episodes.jsonl"
    wait_for(lambda: episodes.exists() and episodes.stat().st_size > 0)
    before = (project / "r" / "recipe.yaml").stat().st_mtime_ns
    found = CliRunner().invoke(app, ["run", *LINE, "-m", "echo", "--out", "r"])
    assert (found.exit_code, REFUSED in found.stderr) == (2, True)
    (project / "hold").unlink()
    assert first.wait(60) == 0
    assert (project / "r" / "recipe.yaml").stat().st_mtime_ns == before
    assert {e.id for e in read_episodes("r")} == {f"words/{n}#0" for n in range(4)}
    assert read_about(Path("r"))["status"] == "done"


@pytest.mark.parametrize("command", ["run", "eval"])
def test_a_moved_run_leaves_the_new_folder_alone(
    project: Path, start: Callable[..., Any], command: str
) -> None:
    (project / "hold").touch()
    first = start(command, *LINE, "--out", "r")
    wait_for(lambda: any(p.stat().st_size for p in project.glob("r/**/episodes.jsonl")))
    (project / "r").rename("moved")
    found = CliRunner().invoke(app, [command, *LINE, "-m", "echo", "--out", "r"])
    assert found.exit_code == 0, found.output
    with unchanged(Path("r")):
        (project / "hold").unlink()
        error = first.communicate(timeout=60)[1]
    assert "r was moved or replaced while it was being written; what was written is now in" in error
    assert str(project / "moved") in error
    assert "Traceback" not in error


def test_a_moved_training_leaves_the_new_folder_alone(game: Recipe) -> None:
    def move(event: Any) -> None:
        if isinstance(event, StepFinished) and not Path("moved").exists():
            Path("r").rename("moved")
            Path("r").mkdir()

    with pytest.raises(RecordError, match=r"r was moved or replaced .* in .*/moved"):
        asyncio.run(TrainingRun(game, Path("r"), emit=move).run())
    assert not [*Path("r").iterdir()]


@pytest.mark.parametrize("resume", [False, True])
def test_second_training_run_does_not_touch_the_first(game: Recipe, resume: bool) -> None:
    out = Path("r")
    if resume:
        asyncio.run(TrainingRun(game, out).run())
    with Lock(out), unchanged(out):
        with pytest.raises(RecordError, match=REFUSED):
            asyncio.run(TrainingRun(game, out, resume=resume).run())
        given: dict[str, Any] = {"resume": "r"} if resume else {"team": "r.yaml", "out": "r"}
        with pytest.raises(RecordError, match=REFUSED):
            collab.train(**given)


def test_run_of_another_process_is_not_marked_as_interrupted(tmp_path: Path) -> None:
    write_about(tmp_path, {"status": "running"})
    about = json.loads((tmp_path / "run.json").read_text())
    about["process"]["pid"] = os.getppid()
    about["process"]["began"] = None  # some systems do not report the start time
    for began, status in ((about["process"]["began"], "interrupted"), (ticks(), "running")):
        about["process"]["began"] = began
        (tmp_path / "run.json").write_text(json.dumps(about))
        mark_interrupted(tmp_path)
        assert read_about(tmp_path)["status"] == status


def ticks() -> str:
    return Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19]


def test_repeated_episode_counts_once(project: Path) -> None:
    collab.load("pair", model="echo").run("words/0-3", out="r")
    file = Path("r/episodes.jsonl")
    file.write_text(file.read_text() * 2)
    record = open_run(Path("r"))
    assert [e.task for e in record.episodes] == [f"words/{n}" for n in range(4)]
    assert record.complaints == ["4 lines of episodes.jsonl repeated and not counted"]
    assert len(list(read_episodes("r"))) == 4
    assert len(read_recorded_episodes(Path("r"))) == 4
    assert len(read_run(Path("r")).episodes) == 4


def test_repeated_step_counts_once(tmp_path: Path) -> None:
    rows = [{"type": "step.finished", "step": n} for n in (1, 2)] * 2
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert collab.read_metrics(tmp_path) == [{"step": 1}, {"step": 2}]


@pytest.mark.slow
@pytest.mark.parametrize("resume", [False, True])
def test_concurrent_training_runs_exclude_each_other(
    game: Recipe, start: Callable[..., Any], tmp_path: Path, resume: bool
) -> None:
    more = ["--set", "trainer.steps=30"]
    arguments = ["train", "r.yaml", "--out", "r", *more]
    if resume:
        asyncio.run(TrainingRun(game, Path("r")).run())
        arguments = ["train", "--resume", "r", *more]
    both = [start(*arguments), start(*arguments)]
    ended = [(process.wait(240), process.stderr.read()) for process in both]
    assert sorted(status for status, _ in ended) == [0, 2], ended
    assert [REFUSED in errors for status, errors in ended if status] == [True], ended
    rows = [json.loads(line) for line in Path("r/metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["type"] == "step.finished"] == [*range(1, 31)]
    episodes = [*Path("r/episodes.jsonl").read_text().splitlines()]
    assert len(episodes) == len(list(read_episodes("r")))
