"""Reading all that a report is about: runs, training runs, evaluations with their teams' runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from collab.errors import RecordError
from collab.evaluation.results import Results
from collab.report.runs import Run, read_run
from collab.runs.layout import EVAL


@dataclass
class Reading:
    runs: list[Run] = field(default_factory=list)
    entrants: set[Path] = field(default_factory=set)
    """The folders of those whose numbers an evaluation tells; one that was killed does not."""
    results: list[Results] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What could not be read at all."""


def read_all(paths: Sequence[Path]) -> Reading:
    """What can be read of the folders.

    Raises:
        RecordError: none of them holds anything to be shown.
    """
    reading = Reading()
    for path in dict.fromkeys(paths):
        try:
            if (path / EVAL).is_file():
                _read_evaluation(path, reading)
            else:
                reading.runs.append(read_run(path))
        except RecordError as error:
            reading.complaints.append(str(error))
    if not reading.runs:
        raise RecordError("; ".join(reading.complaints) or "no run is given")
    reading.runs = _named_apart(reading.runs)
    return reading


def _read_evaluation(path: Path, reading: Reading) -> None:
    """The results, and the runs of the teams that they name."""
    file = path / EVAL
    results = None
    try:
        results = Results.model_validate_json(file.read_bytes())
    except OSError as error:
        raise RecordError(f"{file}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        reading.complaints.append(f"{file}: not an evaluation: {error.errors()[0]['msg']}")
        labels = {entry.name: entry.name for entry in sorted(path.iterdir()) if entry.is_dir()}
    else:
        reading.results.append(results)
        labels = {team.folder or team.label: team.label for team in results.teams}
        if results.status != "done":
            reading.complaints.append(f"{path}: the evaluation is {results.status}")
    found = []
    for name, label in labels.items():
        try:
            run = replace(read_run(path / name), name=label)
            found.append(_counted(run, results))
        except RecordError as error:
            reading.complaints.append(str(error))
    if not found:
        raise RecordError(f"{path} holds nothing to report")
    reading.runs += found
    if results is not None and results.status != "running":
        reading.entrants |= {run.path for run in found}


def _counted(run: Run, results: Results | None) -> Run:
    """The run with those of its episodes that the results are of."""
    if results is None:
        return run
    tasks = set(results.tasks)
    episodes = [e for e in run.episodes if e.task in tasks and e.sample < results.samples]
    return replace(run, episodes=episodes)


def _named_apart(runs: Sequence[Run]) -> list[Run]:
    """Runs in folders of the same name are told apart by the folders above."""
    names = [run.name for run in runs]
    return [
        replace(run, name=f"{run.path.resolve().parent.name}/{run.name}")
        if names.count(run.name) > 1
        else run
        for run in runs
    ]
