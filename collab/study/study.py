"""Runs a study in its folder: each missing cell in its own process, several at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml

from collab.distribution import python_command
from collab.errors import CollabError, RecordError
from collab.processes import end_with_parent
from collab.recipe import Recipe
from collab.recipe.differences import changes_since
from collab.recipe.documents import parse_json, read_mapping
from collab.runs.about import mark_interrupted, read_about
from collab.runs.atomic import Lock, check_no_other_files, explain_disk_errors, write_atomically
from collab.runs.layout import RUN, STUDY, STUDY_RECIPE, TRAINING, TRAINING_LOG
from collab.runs.log import last_error
from collab.runs.reading import read_bytes
from collab.stats import mean
from collab.study.results import (
    CellFinished,
    CellResult,
    CellStarted,
    CellStatus,
    Point,
    StudyEvent,
    StudyResults,
    StudyStarted,
    StudyStatus,
    differences,
    trainer_results,
)
from collab.study.spec import Cell, StudySpec, cells_of, marks_of
from collab.tasks import pin_revision
from collab.trainers import Plan
from collab.trainers.training.events import TaskResult, largest_return, read_evaluations


class Study:
    """A study in its folder. Each missing cell is trained in a separate process.

    Raises:
        RecordError: the folder holds something else, or is being written.
    """

    def __init__(
        self,
        spec: StudySpec,
        out: Path,
        *,
        retry: bool = False,
        trust: bool = False,
        emit: Callable[[StudyEvent], None] = lambda _: None,
    ) -> None:
        """Prepare the study. `retry` trains failed cells, too; each process receives `trust`."""
        self.spec, self.cells, self.marks = spec, cells_of(spec), marks_of(spec)
        self.folder = StudyFolder(out, spec)
        again = ("waiting", "interrupted", "failed") if retry else ("waiting", "interrupted")
        self.missing = [cell for cell in self.cells if self.folder.status(cell) in again]
        self._trust, self._emit = trust, emit
        self._running: dict[str, Cell] = {}
        self._results: StudyResults | None = None
        """Final results, once the study is closed."""

    async def run(self, jobs: int, threads: int) -> StudyResults:
        """Train the missing cells, `jobs` at once, and return the results of all cells.

        If the task is canceled, the processes are interrupted, and finished work is kept.

        Raises:
            RecordError: the folder cannot be written.
        """
        done = sum(self.folder.status(cell) == "done" for cell in self.cells)
        self._emit(
            StudyStarted(
                study=self.folder.path.name,
                folder=str(self.folder.path),
                cells=len(self.cells),
                done=done,
                jobs=jobs,
            )
        )
        self._save("running")
        waiting = iter(self.missing)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(jobs, len(self.missing))):
                    group.create_task(self._train_waiting(waiting, threads))
        finally:
            results = self.close()
        self._emit(results)
        return results

    def close(self) -> StudyResults:
        """Mark cells in progress as interrupted, release the folder, and return the results."""
        if self._results is not None:
            return self._results
        for cell in self._running.values():
            mark_interrupted(self.folder.cell(cell))
        statuses = [self.folder.status(cell) for cell in self.cells]
        ended: StudyStatus = "failed" if "failed" in statuses else "done"
        is_complete = all(status in ("done", "failed") for status in statuses)
        self._results = self._save(ended if is_complete else "interrupted")
        self.folder.lock.release()
        return self._results

    async def _train_waiting(self, waiting: Iterator[Cell], threads: int) -> None:
        for cell in waiting:
            await self._train(cell, threads)

    async def _train(self, cell: Cell, threads: int) -> None:
        began = time.perf_counter()
        resumed = self.folder.prepare(cell)
        self._emit(CellStarted(cell=cell.name, resumed=resumed))
        self._running[cell.name] = cell
        place = str(self.folder.cell(cell))
        arguments = ["--resume", place] if resumed else [*cell.arguments(), "--out", place]
        arguments += ["--trust"] if self._trust and resumed else []  # others were approved before
        log = Path(place) / TRAINING_LOG
        status, error = await train(arguments, log, threads=threads)
        del self._running[cell.name]
        seconds = self.folder.seconds.get(cell.name, 0.0) + time.perf_counter() - began
        self.folder.seconds[cell.name] = seconds
        if status:
            self.folder.failures[cell.name] = error
        self._save("running")
        self._emit(
            CellFinished(
                cell=cell.name,
                status=self.folder.status(cell),
                message=error if status else None,
                seconds=seconds,
            )
        )

    def _save(self, status: StudyStatus) -> StudyResults:
        cells = [*map(self.folder.result, self.cells)]
        results = StudyResults(
            study=self.folder.path.name,
            description=self.spec.description,
            status=status,
            measure=self.spec.measure,
            tokens=self.spec.tokens,
            marks=tuple(self.marks),
            cells=tuple(cells),
            trainers=tuple(trainer_results(cells, self.marks)),
            differences=tuple(differences(cells, self.marks)),
            command=tuple(sys.argv),
        )
        self.folder.save(results)
        return results


PROCESS_GRACE_SECONDS = 5.0
"""Seconds for a process to write its state. Training needs one second."""


async def train(arguments: Sequence[str], log: Path, *, threads: int) -> tuple[int, str]:
    """Run `collab train` to its end, and return its exit status and the last error that it printed.

    If the task is canceled, the process is interrupted as by Ctrl-C, and awaited.

    Raises:
        RecordError: the log cannot be written.
    """
    # One GPU per cell; otherwise each cell would start a rank on every GPU.
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": gpu}
    with explain_disk_errors(log), log.open("ab") as stream:
        earlier = stream.tell()
        process = await asyncio.create_subprocess_exec(
            *(*python_command(), "-m", "collab", "train", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches it once, through this process
            preexec_fn=partial(end_with_parent, os.getpid()),
        )
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        await _interrupt(process)
        raise
    if status < 0:
        return (
            status,
            f"killed by {signal.Signals(-status).name}; if memory was short, lower --jobs",
        )
    output = log.read_bytes()[earlier:].decode("utf-8", "replace")
    return status, last_error(output) or ["it said nothing", *output.splitlines()][-1]


async def _interrupt(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), PROCESS_GRACE_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


USABLE_MEMORY = 0.9
"""The share of free memory that cells may use."""


def choose_jobs(plans: Sequence[Plan], cores: int, memory: int) -> int:
    """Return the number of cells to train at once, at least 1. It is at most the number of cores,
    and their planned memory must fit.

    `memory` is the free memory in bytes.
    """
    largest = max(plan.total for plan in plans)
    by_memory = len(plans) if not largest else int(USABLE_MEMORY * memory / largest)
    return max(1, min(len(plans), cores, by_memory))


def free_memory() -> int:
    """Return the free bytes of the GPU if there is one, otherwise of the machine."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    return int(psutil.virtual_memory().available)


CHANGEABLE_KEYS = ("description", "seeds")
"""Keys of a study that may change when it is continued. More seeds mean more cells."""
EXIT_SECONDS = 10.0
"""Seconds for a cell's process to end after its study was killed. One is enough to stop."""


class StudyFolder:
    """The folder of a study, open for writing by one process at a time."""

    def __init__(self, path: Path, spec: StudySpec) -> None:
        """Open the folder, or make it.

        Raises:
            RecordError: the folder contains another study, or something else, or another process
                writes to it.
        """
        self.path = path
        check_same_study(path, spec)
        self.lock = Lock(path)
        data = spec.model_dump(mode="json")
        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
        write_atomically(path / STUDY_RECIPE, text)
        self._measure = spec.measure
        before = self._read_cells()
        self.failures = {c.name: c.message or "" for c in before if c.status == "failed"}
        self.seconds = {c.name: c.seconds for c in before}
        """Time spent on each cell, in all calls together."""

    def cell(self, cell: Cell) -> Path:
        """Return the folder of a cell's run. It might not exist yet."""
        return self.path / cell.name

    def status(self, cell: Cell) -> CellStatus:
        """Return a cell's status: `waiting`, `done`, `failed` or `interrupted`."""
        if cell.name in self.failures:
            return "failed"
        if not _is_begun(self.cell(cell)):
            return "waiting"
        try:
            ended = read_about(self.cell(cell)).get("status")
        except CollabError:
            return "interrupted"
        return ended if ended in ("done", "failed") else "interrupted"

    def prepare(self, cell: Cell) -> bool:
        """Prepare a cell's folder, and return True if there is a run to continue.

        Wait for the process of a killed study, which still writes its state.

        Raises:
            RecordError: another process trains in the folder, and does not end, or the folder
                holds other files.
        """
        self.failures.pop(cell.name, None)
        Lock(self.cell(cell), seconds=EXIT_SECONDS).release()
        if _is_begun(self.cell(cell)):
            return True
        check_no_other_files(self.cell(cell), TRAINING_LOG)
        self.cell(cell).mkdir(parents=True, exist_ok=True)
        return False

    def result(self, cell: Cell) -> CellResult:
        """Return a cell's result so far."""
        points, maximum = self._points(cell)
        status = self.status(cell)
        return CellResult(
            name=cell.name,
            task=cell.task,
            trainer=cell.trainer,
            seed=cell.seed,
            status=status,
            message=self.failures.get(cell.name),
            seconds=round(self.seconds.get(cell.name, 0.0), 3),
            points=tuple(points),
            maximum=maximum,
        )

    def save(self, results: StudyResults) -> None:
        """Write the results of the study into its folder.

        Raises:
            RecordError: the disk is full.
        """
        content = results.model_dump_json(indent=2)
        write_atomically(self.path / STUDY, content, "free some space")

    def _points(self, cell: Cell) -> tuple[list[Point], float | None]:
        evaluations = read_evaluations(self.cell(cell))
        points = [
            Point(tokens=e.tokens or 0, value=mean([self._value(r) for r in e.sampled.values()]))
            for e in evaluations
        ]
        if self._measure == "solved":
            return points, 1.0 if evaluations else None
        largest = [m for e in evaluations if (m := largest_return(e.sampled)) is not None]
        return points, max(largest, default=None)

    def _value(self, result: TaskResult) -> float:
        if self._measure == "return":
            return result.joint_return
        if result.solved is None:
            raise RecordError(
                "this study measures whether tasks are solved, but no part of the reward says so;"
                " set `solves: true` for a part, or measure: return"
            )
        return result.solved

    def _read_cells(self) -> tuple[CellResult, ...]:
        try:
            data: Mapping[str, Any] = parse_json(read_bytes(self.path / STUDY))
            return StudyResults.model_validate(data).cells
        except (OSError, ValueError):
            return ()


def check_same_study(folder: Path, spec: StudySpec) -> None:
    """Check that a study can go on in this folder.

    Raises:
        RecordError: the folder holds other files, or a setting, a file or a recipe of its study has
            changed. Then its cells would not be comparable.
    """
    check_no_other_files(folder, STUDY_RECIPE)
    if not (folder / STUDY_RECIPE).is_file():
        return
    before = read_mapping(folder / STUDY_RECIPE)
    now = spec.model_dump(mode="json")
    for key in now:
        if key not in CHANGEABLE_KEYS and before.get(key) != now[key]:
            raise RecordError(
                f"{key} is {before.get(key)!r} in the study {folder}, and {now[key]!r} would change"
                " it; change the value back, or choose another folder with --out"
            )
    for cell in cells_of(spec):
        run = folder / cell.name
        if not _is_begun(run):
            continue
        for change in changes_since(run / TRAINING, _pin_dataset(cell.read()[0])):
            raise RecordError(
                f"{run} was started with another recipe: {change}; change it back, or choose"
                " another folder with --out"
            )


def _is_begun(run: Path) -> bool:
    """Return True if a folder has a run that can be resumed."""
    return all((run / name).is_file() for name in (TRAINING, RUN))


def _pin_dataset(recipe: Recipe) -> Recipe:
    """Return the recipe with the commit of its hub dataset, as in a run's recipe."""
    if recipe.task is None:
        return recipe
    task = recipe.task.model_copy(update={"source": pin_revision(recipe.task.source)})
    return recipe.model_copy(update={"task": task})
