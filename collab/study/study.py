"""Runs a study: each missing cell in its own process, several at once, numbers after each."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from collab.runs.atomic import writing
from collab.study.folder import StudyFolder
from collab.study.results import (
    CellFinished,
    CellStarted,
    StudyEvent,
    StudyResults,
    StudyStarted,
    differences,
    trainer_results,
)
from collab.study.spec import Cell, StudySpec, cells_of, marks_of
from collab.trainers import Plan

Emit = Callable[[StudyEvent], None]
StudyStatus = Literal["running", "done", "interrupted", "failed"]


def _ignore(event: StudyEvent) -> None:
    """Ignore an event."""


class Study:
    """A study in its folder. Each cell that is missing is trained by a process of its own.

    Raises:
        RecordError: the folder holds something else, or is being written.
    """

    def __init__(
        self,
        spec: StudySpec,
        out: Path,
        *,
        resume: bool = False,
        retry: bool = False,
        trust: bool = False,
        emit: Emit | None = None,
    ) -> None:
        """`retry` also trains those that failed before; `trust` is passed on to each process."""
        self.spec, self.cells, self.marks = spec, cells_of(spec), marks_of(spec)
        self.folder = StudyFolder(out, spec, resume=resume)
        again = ("waiting", "interrupted", "failed") if retry else ("waiting", "interrupted")
        self.missing = [cell for cell in self.cells if self.folder.status(cell) in again]
        self._trust, self._emit = trust, emit or _ignore
        self._seconds: dict[str, float] = {}
        self._under_way: dict[str, Cell] = {}
        self._results: StudyResults | None = None
        """Final results, once the study is closed."""

    async def run(self, jobs: int, threads: int) -> StudyResults:
        """Train the missing cells, `jobs` at once; returns the results of all.

        When the task is cancelled the processes are interrupted, and what was done is kept.

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
                    group.create_task(self._work(waiting, threads))
        finally:
            results = self.close()
        self._emit(results)
        return results

    def close(self) -> StudyResults:
        """Mark cells under way as interrupted, write the results and release the folder, once."""
        if self._results is not None:
            return self._results
        for cell in self._under_way.values():
            self.folder.interrupted(cell)
        statuses = [self.folder.status(cell) for cell in self.cells]
        ended: StudyStatus = "failed" if "failed" in statuses else "done"
        is_whole = all(status in ("done", "failed") for status in statuses)
        self._results = self._save(ended if is_whole else "interrupted")
        self.folder.close()
        return self._results

    async def _work(self, waiting: Iterator[Cell], threads: int) -> None:
        for cell in waiting:
            await self._train(cell, threads)

    async def _train(self, cell: Cell, threads: int) -> None:
        began = time.perf_counter()
        resumed = self.folder.prepare(cell)
        self._emit(CellStarted(cell=cell.name, resumed=resumed))
        self._under_way[cell.name] = cell
        place = str(self.folder.cell(cell))
        arguments = ["--resume", place] if resumed else [*cell.arguments(), "--out", place]
        arguments += ["--trust"] if self._trust else []
        status, error = await train(arguments, self.folder.log(cell), threads=threads)
        del self._under_way[cell.name]
        self._seconds[cell.name] = time.perf_counter() - began
        if status:
            self.folder.failed(cell, error)
        self._save("running")
        self._emit(
            CellFinished(
                cell=cell.name,
                status=self.folder.status(cell),
                message=error if status else None,
                seconds=self._seconds[cell.name],
            )
        )

    def _save(self, status: StudyStatus) -> StudyResults:
        cells = [self.folder.result(cell, self._seconds.get(cell.name, 0.0)) for cell in self.cells]
        results = StudyResults(
            study=self.folder.path.name,
            description=self.spec.description,
            status=status,
            measure=self.spec.measure,
            tokens=self.spec.tokens,
            marks=tuple(self.marks),
            cells=tuple(cells),
            trainers=tuple(trainer_results(cells, self.marks, self.spec.level)),
            differences=tuple(differences(cells, self.marks)),
            command=tuple(sys.argv),
        )
        self.folder.save(results)
        return results


GRACE_SECONDS = 5.0
"""Seconds for a process to write its state; training takes one."""


async def train(arguments: Sequence[str], log: Path, *, threads: int) -> tuple[int, str]:
    """Run `collab train` to its end; returns its exit status, and the last error that it printed.

    When the task is cancelled, the process is interrupted as by Ctrl-C, and awaited.

    Raises:
        RecordError: the log cannot be written.
    """
    # One GPU a cell, or each would start a rank on all of them.
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": gpu}
    with writing(log), log.open("ab") as stream:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "collab", "train", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env=environment,
            start_new_session=True,  # so that Ctrl-C reaches it once, through this process
            preexec_fn=_end_with(os.getpid()) if sys.platform == "linux" else None,
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
    return status, _last_error(log)


async def _interrupt(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), GRACE_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _end_with(parent: int) -> Callable[[], None]:
    """Interrupt a process when its parent is killed, so that nothing trains unseen."""
    from collab.sandbox.jail.layers import linux

    def prepare() -> None:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _last_error(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else (lines[-1] if lines else "it said nothing")


SPARE = 0.9
"""The share of free memory that cells may use."""
MEMINFO = Path("/proc/meminfo")


def jobs_for(plans: Sequence[Plan], cores: int, memory: int | None) -> int:
    """Cells at once: one a core at most, and as many as their planned memory allows; 1 at least.

    `memory` is what is free, in bytes; None where nobody knows.
    """
    most = max(plan.total for plan in plans)
    by_memory = len(plans) if memory is None or not most else int(SPARE * memory / most)
    return max(1, min(len(plans), cores, by_memory))


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int | None:
    """Bytes: the GPU's where there is one, else the machine's; None where it does not say."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
