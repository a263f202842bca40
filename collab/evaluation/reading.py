"""Reading an evaluation's folder as far as it can be read: it may be cut off or broken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from collab.errors import RecordError
from collab.evaluation.results import Results
from collab.records import Episode
from collab.runs.layout import EVAL


@dataclass(frozen=True)
class EvaluationRecord:
    """What can be read of an evaluation's folder."""

    results: Results | None
    """What `eval.json` says; None where it is broken."""
    teams: dict[str, str]
    """The label of each team, by its folder within the evaluation's."""
    complaints: list[str]
    """What could not be read, and whether the evaluation came to its end."""

    def counts(self, episode: Episode) -> bool:
        """Whether the numbers are of this episode; all are where there are no numbers."""
        results = self.results
        if results is None:
            return True
        return episode.task in results.tasks and episode.sample < results.samples

    @property
    def has_numbers(self) -> bool:
        """Whether the evaluation tells the numbers of its teams; one that was killed does not."""
        return self.results is not None and self.results.status != "running"


def is_evaluation(folder: Path) -> bool:
    """Whether a folder is that of an evaluation, be it broken."""
    return (folder / EVAL).is_file()


def read_results(folder: Path) -> Results:
    """What `eval.json` says.

    Raises:
        RecordError: the folder is not an evaluation's, or the file is broken.
    """
    path = folder / EVAL
    try:
        return Results.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RecordError(
            f"{folder} is not an evaluation's folder: {EVAL}: {error.strerror}"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise RecordError(f"{path}: not an evaluation: {first['msg']}") from error


def open_evaluation(folder: Path) -> EvaluationRecord:
    """An evaluation and its teams; where `eval.json` cannot be read, each folder is a team's."""
    try:
        results = read_results(folder)
    except RecordError as error:
        names = [entry.name for entry in sorted(folder.iterdir()) if entry.is_dir()]
        return EvaluationRecord(None, {name: name for name in names}, [str(error)])
    teams = {team.folder or team.label: team.label for team in results.teams}
    is_done = results.status == "done"
    complaints = [] if is_done else [f"{folder}: the evaluation is {results.status}"]
    return EvaluationRecord(results, teams, complaints)
