"""Running a study: what is missing of it, several cells at once, with its numbers after each."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from collab.study.cells import Cell, cells_of, marks_of
from collab.study.folder import StudyFolder
from collab.study.numbers import differences, trainer_results
from collab.study.processes import train
from collab.study.results import (
    CellFinished,
    CellStarted,
    StudyEvent,
    StudyResults,
    StudyStarted,
)
from collab.study.spec import StudySpec

Emit = Callable[[StudyEvent], None]
StudyStatus = Literal["running", "done", "interrupted", "failed"]


def _ignore(event: StudyEvent) -> None:
    """The emit of a caller who does not watch."""


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

    async def run(self, jobs: int, threads: int) -> StudyResults:
        """Train what is missing, so many at once; the numbers of all cells.

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

    def leave(self) -> None:
        """Say of what is under way that it was interrupted, where there is no time to wait."""
        self.close()

    def close(self) -> StudyResults:
        """Write down how far it came, and let go of the folder."""
        for cell in self._under_way.values():
            self.folder.interrupted(cell)
        statuses = [self.folder.status(cell) for cell in self.cells]
        ended: StudyStatus = "failed" if "failed" in statuses else "done"
        is_whole = all(status in ("done", "failed") for status in statuses)
        results = self._save(ended if is_whole else "interrupted")
        self.folder.close()
        return results

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
