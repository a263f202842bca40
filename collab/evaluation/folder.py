"""The folder of an evaluation, which can be read and continued at any moment.

`collab.runs.layout` lists its files. In a team's `run.json`, `identity` is the digest of all that
its episodes depend on.

`eval.json` is written at the start, after each team and at the end. A killed evaluation keeps
`status: running`. Its `teams` list their folders. Other folders belong to teams that have changed
since. A team's folder can contain episodes that the last call does not count. It counts episodes of
the `tasks` in `eval.json` whose sample is below `samples`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from collab.errors import RecordError
from collab.evaluation.results import Results
from collab.naming import find_free_name
from collab.records import Episode
from collab.runs.about import KILLED, RUNNING, may_be_running, read_about
from collab.runs.atomic import Lock, check_no_other_files, write_atomically
from collab.runs.layout import EPISODES, EVAL, LOCK, REPORT, RUN
from collab.runs.log import iterate_lines, read_episode_lines
from collab.runs.reading import read_bytes
from collab.wording import list_errors

EpisodeKey = tuple[str, int]
"""An episode's task and sample."""


class EvaluationFolder:
    """An evaluation's folder, open for writing by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Prepare the folder for writing.

        Raises:
            RecordError: the folder holds something else, or another process writes it.
        """
        self.path = path
        self._taken = {path / name for name in (EVAL, LOCK, REPORT)}
        check_no_other_files(path, EVAL)
        self._lock = Lock(path)

    def team_folder(self, label: str, identity: str) -> Path:
        """Return the folder of a team: its folder from an earlier call, or an unused one."""

        def is_taken(name: str) -> bool:
            place = self.path / name
            if place in self._taken or not (place / RUN).exists():
                return place in self._taken or (place / EPISODES).exists()
            return bool(read_about(place).get("identity") != identity)

        path = self.path / find_free_name(label, is_taken)
        if not path.exists():  # another label may have had the team
            runs = sorted(file.parent for file in self.path.glob(f"*/{RUN}"))
            path = next((run for run in runs if not is_taken(run.name)), path)
        self._taken.add(path)
        return path

    def save(self, results: Results) -> None:
        """Write `eval.json`."""
        write_atomically(self.path / EVAL, results.model_dump_json(indent=2))

    def close(self) -> None:
        """Release the lock, and remove the folder if it is empty."""
        self._lock.release()


def choose_episodes(
    episodes: Mapping[EpisodeKey, Episode], tasks: Sequence[str], samples: int
) -> dict[str, list[Episode]]:
    """Return the episodes that count, by task: the first `samples` of each of `tasks`, in order."""
    return {
        task: [episodes[task, n] for n in range(samples) if (task, n) in episodes] for task in tasks
    }


def read_finished(path: Path) -> dict[EpisodeKey, Episode]:
    """Return the finished episodes in a file by key."""
    episodes = read_episode_lines(path, Episode)[0] if path.exists() else []
    return {(e.task, e.sample): e for e in episodes if e.failure is None}


def keep_only(path: Path, episodes: Mapping[EpisodeKey, Episode]) -> None:
    """Remove all lines but those of `episodes` from a file."""
    if path.exists() and sum(1 for _ in iterate_lines(path)) > len(episodes):
        write_atomically(path, "".join(f"{e.model_dump_json()}\n" for e in episodes.values()))


@dataclass(frozen=True)
class EvaluationRecord:
    """The readable part of an evaluation's folder."""

    results: Results | None
    """The data of `eval.json`, or None if it is broken."""
    teams: dict[str, str]
    """The label of each team, by its folder within the evaluation's."""
    complaints: list[str]
    """Complaints about files that cannot be read, and about an unfinished evaluation."""

    def counts(self, episode: Episode) -> bool:
        """Return True if the results include this episode, or if there are no results."""
        results = self.results
        if results is None:
            return True
        return episode.task in results.tasks and episode.sample < results.samples


def is_evaluation(folder: Path) -> bool:
    """Return True for the folder of an evaluation, even a broken one."""
    return (folder / EVAL).is_file()


def read_results(folder: str | Path) -> Results:
    """Return the results of an evaluation so far, from its folder's `eval.json`.

    Raises:
        RecordError: the folder is not an evaluation's, or the file is broken.
    """
    path = Path(folder) / EVAL
    try:
        return Results.model_validate_json(read_bytes(path))
    except OSError as error:
        raise RecordError(
            f"{folder} is not an evaluation's folder: {EVAL}: {error.strerror}"
        ) from error
    except ValidationError as error:
        raise RecordError(f"{path}: not an evaluation: {list_errors(error)[0]}") from error


def read_evaluation(folder: Path) -> EvaluationRecord:
    """Return the readable part of an evaluation.

    Without a readable `eval.json`, each folder in it counts as a team. An evaluation that is marked
    as running but has no process counts as killed.
    """
    try:
        results = read_results(folder)
    except RecordError as error:
        names = [entry.name for entry in sorted(folder.iterdir()) if entry.is_dir()]
        return EvaluationRecord(None, {name: name for name in names}, [str(error)])
    teams = {team.folder or team.label: team.label for team in results.teams}
    runs = [file.parent for file in folder.glob(f"*/{RUN}")]
    if results.status == RUNNING and runs and not any(map(may_be_running, runs)):
        results = results.model_copy(update={"status": KILLED})
    is_done = results.status == "done"
    complaints = [] if is_done else [f"{folder}: the evaluation is {results.status}"]
    return EvaluationRecord(results, teams, complaints)
