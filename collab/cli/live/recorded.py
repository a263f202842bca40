"""Reads the events of a run, a training run or an evaluation from its files while it works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any

from pydantic import ValidationError

from collab.errors import RecordError
from collab.evaluation.folder import is_evaluation, read_results
from collab.evaluation.results import EvaluationFinished, TeamStarted
from collab.records import Episode, Record
from collab.runs import metric_names as names
from collab.runs.about import KILLED, RUNNING, end_of, is_training, read_about, status_of
from collab.runs.layout import EPISODES, METRICS, RUN
from collab.runs.log import Tail
from collab.runs.metrics import EVALUATION_FINISHED, row_of
from collab.runtime.events import AgentActed, EpisodeFinished, RunFinished, RunStarted
from collab.runtime.summary import summarize
from collab.trainers.training.events import Evaluation, StepFinished, TrainingProgress
from collab.wording import faults

Pause = Callable[[], object]
"""Waits until more may be written."""
WAIT: Pause = partial(time.sleep, 0.5)


def follow(folder: Path, pause: Pause = WAIT) -> Iterator[Record]:
    """Yield the events of a run, a training run or an evaluation, from its start to its end.

    Raises:
        RecordError: the folder contains no run, training or evaluation, or is a server's record.
    """
    if is_evaluation(folder):
        return follow_evaluation(folder, pause)
    if read_about(folder).get("command", [])[-1:] == ["serve"]:
        command = join(["collab", "show", str(folder)])
        raise RecordError(f"{folder}: the record of a server cannot be followed; use {command}")
    return follow_run(folder, pause)


def follow_run(folder: Path, pause: Pause) -> Iterator[Record]:
    """Yield the events of a run or a training run, from its start to its end, including work in
    progress.
    """
    opening = _opening(folder, read_about(folder))
    yield opening
    trains = is_training(folder)
    tail = Tail(folder / (METRICS if trains else EPISODES))
    episodes: list[Episode] = []
    about: Mapping[str, Any] = {}
    step, tokens = 0, 0
    for about in _until_it_ends(folder, pause):
        for line in tail.lines():
            if not trains:
                if episode := _episode(line):
                    episodes.append(episode)
                    yield from _events_of(episode)
            elif event := _of_training(line, about, tokens):
                if isinstance(event, StepFinished):
                    step, tokens = event.step, event.tokens or 0
                yield event
        if trains:
            yield TrainingProgress(step=step + 1, phase="sampling")
    summary = about.get("summary", {})
    if summary or not trains:
        known = {"steps": step, "seconds": 0.0} if trains else summarize(episodes, 0.0)
        yield RunFinished(run=opening.run, status=end_of(about), summary={**known, **summary})


def follow_evaluation(folder: Path, pause: Pause) -> Iterator[Record]:
    """Yield the events of an evaluation, team by team.

    Raises:
        RecordError: the folder is not an evaluation's.
    """
    tails: dict[str, Tail] = {}
    while True:
        results, is_gone = read_results(folder), how_it_ended(folder) == KILLED
        for team in results.teams:
            if team.folder and team.label not in tails:
                tails[team.label] = Tail(folder / team.folder / EPISODES)
                yield TeamStarted(label=team.label, planned=team.planned, recorded=0)
            for line in tails[team.label].lines() if team.folder else ():
                if episode := _episode(line):
                    yield from _events_of(episode)
        if results.status != RUNNING or is_gone:
            break
        pause()
    yield EvaluationFinished(results=results)


def how_it_ended(folder: Path) -> str:
    """Return the status in the record of a run or an evaluation, or `killed` if its process is
    gone.
    """
    if not is_evaluation(folder):
        return status_of(read_about(folder))
    results = read_results(folder)
    if results.status != RUNNING:
        return results.status
    # Folders of teams that have changed since keep the status of an earlier, killed call.
    places = [folder / team.folder for team in results.teams if team.folder]
    places = places or [file.parent for file in folder.glob(f"*/{RUN}")]
    is_gone = any(
        status_of(read_about(place)) == KILLED for place in places if (place / RUN).is_file()
    )
    return KILLED if is_gone else RUNNING


def _events_of(episode: Episode) -> Iterator[Record]:
    for turn in episode.turns:
        for decision in turn.decisions:
            yield AgentActed(episode=episode.id, turn=turn.index, decision=decision)
    yield EpisodeFinished(episode=episode)


def _until_it_ends(folder: Path, pause: Pause) -> Iterator[dict[str, Any]]:
    """Yield the data of `run.json` repeatedly until the run has ended."""
    while status_of(about := read_about(folder)) == RUNNING:
        yield about
        pause()
    yield about


def _opening(folder: Path, about: Mapping[str, Any]) -> RunStarted:
    known = {key: value for key, value in about.items() if key in RunStarted.model_fields}
    try:
        return RunStarted.model_validate({**known, "folder": str(folder)})
    except ValidationError as error:
        raise RecordError(f"{folder}: run.json: {faults(error)[0]}") from error


def _episode(line: bytes) -> Episode | None:
    try:
        return Episode.model_validate_json(line)
    except ValidationError:
        return None


def _of_training(
    line: bytes, about: Mapping[str, Any], tokens: int
) -> StepFinished | Evaluation | None:
    """Return a step or an evaluation. `tokens` were generated before it."""
    try:
        row = row_of(line)
        if row["type"] == EVALUATION_FINISHED:
            return Evaluation.model_validate(row)
        step = row.pop("step")
        metrics = {key: value for key, value in row.items() if key != "type"}
        return StepFinished(
            step=step,
            steps=about.get("steps", step),
            metrics=metrics,
            tokens=tokens + int(metrics.get(names.TOKENS, 0)),
            of_tokens=about.get("tokens"),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
