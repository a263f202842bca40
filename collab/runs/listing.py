"""The runs in a folder, told in a row each by what their small files say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from collab.errors import CollabError
from collab.naming import joint_name
from collab.runs.about import read_about
from collab.runs.at_work import status_of
from collab.runs.layout import EVAL, PROBE, RUN, STUDY, TRAINING
from collab.runs.outcome import NO_NUMBERS, Outcome, of_run, of_training

Kind = Literal["run", "training", "evaluation", "probe", "study"]


@dataclass(frozen=True)
class Listed:
    """A run in a row."""

    folder: str
    began: datetime
    kind: Kind
    team: str
    task: str
    status: str
    """As `run.json` says, or `killed`, or why it cannot be read."""
    outcome: Outcome = NO_NUMBERS


def listed(folders: Iterable[Path]) -> list[Listed]:
    """The runs in some folders, newest first; teams of evaluations and runs of studies are told."""
    files = {file for folder in folders for file in runs_in(folder)}
    return sorted((row_of(file.parent) for file in files), key=newest_first)


def holds_runs(folder: Path) -> bool:
    """Whether a folder is none of a run, and some in it are."""
    return not (folder / RUN).exists() and any(True for _ in runs_in(folder))


def runs_in(folder: Path) -> Iterator[Path]:
    """The `run.json` of each run in a folder, of an evaluation's teams and a study's runs too."""
    for pattern in (f"*/{RUN}", f"*/*/{RUN}"):
        yield from folder.glob(pattern)


def newest_first(row: Listed) -> tuple[float, str]:
    """The key by which rows are sorted."""
    return -row.began.timestamp(), row.folder


def row_of(folder: Path) -> Listed:
    """What a run's small files say of it."""
    try:
        about = read_about(folder)
    except CollabError as error:
        told = f"cannot be read: {error}"
        return Listed(str(folder), _written(folder), _kind(folder), "", "", told)
    trained = (folder / TRAINING).exists()
    return Listed(
        folder=str(folder),
        began=_began(folder, about),
        kind=_kind(folder),
        team=str(about.get("team") or joint_name(about.get("agents", ()))),
        task=_task(about.get("tasks", [])),
        status=status_of(about),
        outcome=of_training(folder) if trained else of_run(about),
    )


def _kind(folder: Path) -> Kind:
    if (folder.parent / EVAL).exists():
        return "evaluation"
    if (folder.parent / STUDY).exists():
        return "study"
    if (folder / TRAINING).exists():
        return "training"
    return "probe" if (folder / PROBE).exists() else "run"


def _began(folder: Path, about: Mapping[str, Any]) -> datetime:
    """When the run began; of older records what its name or its file says."""
    with suppress(ValueError):
        return datetime.fromisoformat(str(about.get("started"))).astimezone()
    with suppress(ValueError):
        return datetime.strptime(folder.name[:15], "%Y%m%d-%H%M%S").astimezone()
    return _written(folder)


def _written(folder: Path) -> datetime:
    return datetime.fromtimestamp((folder / RUN).stat().st_mtime).astimezone()


def _task(addresses: list[str]) -> str:
    """The problem, or the suite and how many of its problems."""
    suites = list(dict.fromkeys(address.rpartition("/")[0] or address for address in addresses))
    if len(addresses) == 1:
        return addresses[0]
    return f"{', '.join(suites)} ({len(addresses)})" if suites else ""
