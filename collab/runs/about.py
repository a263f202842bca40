"""`run.json`: the content of the run, its versions, and its outcome."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from shlex import join, quote
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from collab.errors import CollabError, RecordError
from collab.naming import as_name
from collab.runs.atomic import write_atomically
from collab.runs.layout import EPISODES, METRICS, RUN, RUN_MARKERS, RUNS, TRAINING
from collab.runs.reading import read_bytes
from collab.wording import list_errors

RUNNING, KILLED = "running", "killed"
"""Statuses of a running run, and of one whose process no longer exists."""


def this_process() -> dict[str, Any]:
    """Return data that identifies this process: machine, process id and start time."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "began": _process_start(os.getpid())}


def status_of(about: Mapping[str, Any]) -> str:
    """Return the status in `run.json`, or `killed` if the run's process no longer exists.

    A process on another machine counts as running, as does a record that names no process.
    """
    status = str(about.get("status", "done"))
    if status == RUNNING and _has_process_ended(about.get("process")):
        return KILLED
    return status


def _has_process_ended(process: Any) -> bool:
    if not isinstance(process, Mapping) or process.get("host") != socket.gethostname():
        return False
    number = process.get("pid")
    if not isinstance(number, int) or number <= 0:
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process
        return False
    return _process_start(number) != process.get("began")


def _process_start(number: int) -> str | None:
    """Return the start time of a process, in the system's ticks, or None if the system does not
    report it.

    A zombie has ended, so it counts as having none.
    """
    with suppress(OSError, IndexError):
        content = Path(f"/proc/{number}/stat").read_bytes()  # its name can be cut within a letter
        fields = content.rpartition(b")")[2].decode().split()
        return "ended" if fields[0] in "ZX" else fields[19]
    return None


Count = Annotated[int, Field(ge=0, le=2**53)]

_CONFIG = ConfigDict(extra="allow", strict=True)
"""A file may have more keys than those that collab reads."""


@with_config(_CONFIG)
class _Usage(TypedDict):
    """An agent's responses, tokens and cost."""

    responses: Count
    prompt_tokens: Count
    new_tokens: Count
    cost: float | None


@with_config(_CONFIG)
class _Gain(TypedDict):
    """Held-out results before training and after it."""

    before: float
    after: float
    gain: float
    error: float | None
    solved_before: float | None
    solved_after: float | None
    tasks: Count
    maximum: float | None


@with_config(_CONFIG)
class _Summary(TypedDict, total=False):
    """The outcome of a run or of a training run."""

    episodes: Count
    failed: Count
    failures: dict[str, Count]
    solvable: Count
    solved: Count
    mean_return: float | None
    largest_return: float | None
    flagged: Count
    new_tokens: Count
    seconds: float
    tokens_per_second: float
    agents: dict[str, _Usage]
    warnings: list[str]
    steps: Count
    unlearned: Count
    gains: dict[str, _Gain]


@with_config(_CONFIG)
class _About(TypedDict, total=False):
    """The keys of `run.json` that collab reads."""

    run: str
    team: str
    agents: list[str]
    started: str
    status: str
    models: dict[str, str]
    tasks: list[str]
    samples: Count
    turns: Count
    steps: Count
    tokens: Count
    seed: int
    isolation: str | None
    ranks: Count
    identity: str
    versions: dict[str, str]
    command: list[str]
    process: dict[str, Any]
    summary: _Summary
    changes: list[dict[str, Any]]


_ABOUT = TypeAdapter(_About)


def check_holds_run(path: Path) -> None:
    """Check that a path exists and, for a folder, that a run left files in it.

    Raises:
        RecordError: the folder does not exist, or contains no run.
    """
    listed = "`collab show` lists your runs, and `collab run TEAM` starts one"
    if not path.exists():
        raise RecordError(f"{path} does not exist; {listed}")
    if path.is_dir() and not any((path / mark).is_file() for mark in (*RUN_MARKERS, METRICS)):
        if next(path.glob(f"*/{RUN}"), None):
            listed = f"`collab show {quote(str(path))}` lists the runs in it"
        raise RecordError(
            f"{path} is not a run's folder: it has no {RUN} and no {EPISODES}; {listed}"
        )


def is_training(folder: Path) -> bool:
    """Return True for the folder of a training run, which has begun."""
    return (folder / TRAINING).is_file()


def resume_hint(folder: Path) -> str:
    """Return how to continue a training run, after a semicolon, or "" for another folder."""
    return f"; continue with: {_resume_command(folder)}" if is_training(folder) else ""


def _resume_command(folder: Path) -> str:
    """Return the command that continues a training run."""
    return join(["collab", "train", "--resume", str(folder)])


def check_is_training(path: Path) -> None:
    """Check that a folder is that of a training run.

    Raises:
        RecordError: the folder is not a training run.
    """
    if not is_training(path):
        why = f"is not a training run: it has no {TRAINING}" if path.exists() else "does not exist"
        raise RecordError(f"{path} {why}; `collab show` lists your runs")


def may_be_running(folder: Path) -> bool:
    """Return True if a process still writes the run in this folder, or if this is unknown."""
    try:
        return status_of(read_about(folder)) == RUNNING
    except RecordError:
        return True


def check_has_ended(folder: Path) -> None:
    """Check that no process still writes the run in `folder`. A folder without a run passes.

    Raises:
        RecordError: a process still writes the run, or `run.json` is invalid.
    """
    if (folder / RUN).is_file() and status_of(read_about(folder)) == RUNNING:
        or_resume = f", or end it with `{_resume_command(folder)}`"
        raise RecordError(
            f"{folder} is still being written; wait until it ends{or_resume * is_training(folder)}"
        )


def read_about(folder: Path) -> dict[str, Any]:
    """Return the content of `run.json` in a run's folder.

    Raises:
        RecordError: the folder is not a run's, or the file's content is invalid.
    """
    path = folder / RUN
    check_holds_run(folder)
    try:
        return dict(_ABOUT.validate_json(read_bytes(path)))
    except OSError as error:
        raise RecordError(f"{folder} is not a run's folder: {RUN}: {error.strerror}") from error
    except ValidationError as error:
        raise RecordError(f"{path}: {list_errors(error)[0]}") from error


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Replace `run.json` atomically. For a running run it contains the process.

    Raises:
        RecordError: `run.json` cannot be written. The file is unchanged.
    """
    content = {key: value for key, value in about.items() if key != "process"}
    if content.get("status") == RUNNING:
        content["process"] = this_process()
    write_atomically(folder / RUN, json.dumps(content, indent=2))


def mark_interrupted(folder: Path) -> None:
    """Mark a killed run as interrupted in `run.json`.

    A run that has ended, or that another process is writing, stays unchanged.
    """
    with suppress(CollabError):
        about = read_about(folder)
        process = about.get("process")
        is_here = process is None or process == this_process() or _has_process_ended(process)
        if about.get("status") == RUNNING and is_here:
            write_about(folder, {**about, "status": "interrupted"})


def command_line() -> list[str]:
    """Return the command line of this process, with bytes that are not UTF-8 escaped."""
    return [word.encode(errors="backslashreplace").decode() for word in sys.argv]


def now() -> str:
    """Return the time in the form of records: ISO 8601 in seconds, with the offset from UTC."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def new_run_path(name: str, place: str = RUNS) -> Path:
    """Return the default folder for a new record about `name`."""
    return Path(place) / new_run_id(name)


def new_run_id(name: str) -> str:
    """Return a new name for a run: the current time and `name`."""
    return f"{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3] + f"-{as_name(name) or 'run'}"
