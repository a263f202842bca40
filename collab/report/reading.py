"""Reading all that a report is about: runs, training runs, evaluations with their teams' runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from collab.errors import RecordError
from collab.evaluation.reading import is_evaluation, open_evaluation
from collab.evaluation.results import Results
from collab.report.runs import Run, read_run


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
            if is_evaluation(path):
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
    record = open_evaluation(path)
    reading.complaints += record.complaints
    if record.results is not None:
        reading.results.append(record.results)
    found = []
    for name, label in record.teams.items():
        try:
            run = read_run(path / name)
        except RecordError as error:
            reading.complaints.append(str(error))
        else:
            episodes = [episode for episode in run.episodes if record.counts(episode)]
            found.append(replace(run, name=label, episodes=episodes))
    if not found:
        raise RecordError(f"{path} holds nothing to report")
    reading.runs += found
    if record.has_numbers:
        reading.entrants |= {run.path for run in found}


def _named_apart(runs: Sequence[Run]) -> list[Run]:
    """Runs in folders of the same name are told apart by the folders above."""
    names = [run.name for run in runs]
    return [
        replace(run, name=f"{run.path.resolve().parent.name}/{run.name}")
        if names.count(run.name) > 1
        else run
        for run in runs
    ]
