"""Reads runs for a report as far as their files can be read, and groups them by recipe."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import commonpath
from pathlib import Path
from typing import Any

from collab.errors import RecipeError, RecordError
from collab.evaluation.folder import is_evaluation, read_evaluation
from collab.evaluation.results import Results
from collab.recipe.differences import file_digests, find_differences, outcome_settings, reward_in
from collab.recipe.documents import read_mapping, read_text
from collab.records import Episode
from collab.records.run import episode_key, open_run
from collab.runs import metric_names as names
from collab.runs.about import KILLED, RUNNING, check_holds_run, is_training, status_of
from collab.runs.layout import EVALUATION, METRICS, RECIPE, RECORD_FILES, TRAINING
from collab.runs.listing import finite_number
from collab.runs.log import read_episode_lines, read_lines, unique_items
from collab.runs.metrics import EVALUATION_FINISHED, parse_row
from collab.runs.reading import check_within
from collab.stats import group_by
from collab.trainers.training.alarms import StepMetrics
from collab.trainers.training.events import Evaluation, HeldOut

MAX_COMPLAINTS = 10


@dataclass(frozen=True)
class Run:
    """One run, with the contents of all of its files that can be read."""

    name: str
    path: Path
    about: dict[str, Any] = field(default_factory=dict)
    """The data of `run.json`."""
    recipe: dict[str, Any] = field(default_factory=dict)
    recipe_text: str = ""
    episodes: list[Episode] = field(default_factory=list)
    steps: Sequence[StepMetrics] = ()
    """The metrics of every step of training, with `step`, counted from 1."""
    evaluations: list[Evaluation] = field(default_factory=list)
    """Held-out evaluations, by step."""
    held_out: list[HeldOut] = field(default_factory=list)
    """The episodes of the evaluations, including an unfinished one."""
    complaints: list[str] = field(default_factory=list)
    is_training: bool = False

    @property
    def status(self) -> str:
        return status_of(self.about) if self.about else "unknown"

    def step_of(self, episode: Episode) -> int | None:
        """Return the step of training for which the episode was run, counted from 1."""
        if not self.is_training:
            return None
        per_step = value_at(self.recipe, "trainer.tasks_per_step")
        return episode.group // (per_step if isinstance(per_step, int) and per_step else 1) + 1


def largest_return(run: Run) -> float | None:
    """Return the largest possible return of an episode, or None if there is no score."""
    episodes = [*run.episodes, *(item.episode for item in run.held_out)]
    return max((e.largest_return for e in episodes if e.largest_return is not None), default=None)


def maximum_text(runs: Sequence[Run]) -> str:
    """Return the largest possible return of these runs, for captions, or "" if unknown."""
    known = [most for run in runs if (most := largest_return(run)) is not None]
    return f" of at most {max(known):.2f}" if known else ""


def value_at(data: Any, path: str) -> Any:
    """Return the value at a dotted path in nested mappings, or None if there is none."""
    for key in path.split("."):
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def read_run(path: Path) -> Run:
    """Return the readable part of a run.

    Raises:
        RecordError: there is nothing to show.
    """
    check_holds_run(path)
    complaints: list[str] = []
    about, episodes = _read_record(path, complaints)
    steps, evaluations = _read_metrics(path / METRICS, complaints)
    if not (episodes or steps or evaluations):
        reasons = ["it has no readable episode or training step", *_limit_complaints(complaints)]
        why = "; ".join(reasons)
        raise RecordError(f"{path} has nothing to report: {why}")
    recipe, text = _read_recipe(path, complaints)
    held_out = _read_held_out(path / EVALUATION, complaints)
    resolved = path.resolve()
    name = resolved.name if path.is_dir() else resolved.parent.name
    return Run(
        name=name,
        path=path,
        about=about,
        recipe=recipe,
        recipe_text=text,
        episodes=episodes,
        steps=steps,
        evaluations=evaluations,
        held_out=held_out,
        complaints=_limit_complaints(complaints),
        is_training=bool(steps or evaluations) or is_training(path),
    )


def _limit_complaints(complaints: Sequence[str]) -> list[str]:
    """Return the first complaints, and the number of others."""
    more = len(complaints) - MAX_COMPLAINTS
    rest = [f"{more:,} more of this kind not shown"] if more > 0 else []
    return [*complaints[:MAX_COMPLAINTS], *rest]


def _read_record(path: Path, complaints: list[str]) -> tuple[dict[str, Any], list[Episode]]:
    try:
        record = open_run(path)
    except RecordError as error:
        complaints.append(str(error))
        return {}, []
    complaints += record.complaints
    return record.about, record.episodes


def _read_metrics(path: Path, complaints: list[str]) -> tuple[list[StepMetrics], list[Evaluation]]:
    if not path.is_file():
        return [], []
    lines = read_lines(path, _row, "neither a step nor an evaluation")
    complaints += lines.complaints
    evaluations = {row.step: row for row in lines.items if isinstance(row, Evaluation)}
    steps = {int(row["step"]): row for row in lines.items if not isinstance(row, Evaluation)}
    return [steps[n] for n in sorted(steps)], [evaluations[n] for n in sorted(evaluations)]


def _row(line: bytes) -> StepMetrics | Evaluation:
    row = parse_row(line)
    if row["type"] == EVALUATION_FINISHED:
        return Evaluation.model_validate(row)
    known = {key: value for key, item in row.items() if (value := finite_number(item)) is not None}
    return {**known, "step": int(row["step"])}


def _read_held_out(path: Path, complaints: list[str]) -> list[HeldOut]:
    if not path.is_file():
        return []
    held_out, broken = read_episode_lines(path, HeldOut)
    complaints += broken
    return list(unique_items(held_out, lambda h: (h.step, h.mode, episode_key(h.episode))))


def _read_recipe(path: Path, complaints: list[str]) -> tuple[dict[str, Any], str]:
    """Return the recipe as data and as text, without checks."""
    if not path.is_dir():
        return {}, ""
    file = path / TRAINING if is_training(path) else path / RECIPE
    try:
        return read_mapping(file), read_text(file)
    except RecipeError as error:
        complaints.append(str(error).partition("\n")[0])
        return {}, ""


@dataclass
class Reading:
    """The runs that a report could read, and complaints about the others."""

    runs: list[Run] = field(default_factory=list)
    evaluated_folders: set[Path] = field(default_factory=set)
    """Folders of the teams whose numbers are in an evaluation."""
    results: list[Results] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Folders that cannot be read."""


def read_runs(paths: Sequence[Path]) -> Reading:
    """Return the readable parts of the folders.

    Raises:
        RecordError: there is nothing to show in any of them.
    """
    reading = Reading()
    for path in dict.fromkeys(paths):
        try:
            check_within(path, (path / name for name in RECORD_FILES))
            if is_evaluation(path):
                _read_evaluation(path, reading)
            else:
                reading.runs.append(read_run(path))
        except RecordError as error:
            reading.complaints.append(str(error))
    if not reading.runs:
        raise RecordError("; ".join(reading.complaints) or "no run is given")
    reading.runs = _make_names_unique(reading.runs)
    return reading


def _read_evaluation(path: Path, reading: Reading) -> None:
    """Read the results, and the runs of the teams that they name."""
    record = read_evaluation(path)
    reading.complaints += record.complaints
    results = record.results
    if results is not None:
        reading.results.append(results)
    runs = []
    for name, label in record.teams.items():
        try:
            check_within(path, (path / name / file for file in RECORD_FILES))
            run = read_run(path / name)
        except RecordError as error:
            reading.complaints.append(str(error))
        else:
            episodes = [episode for episode in run.episodes if record.counts(episode)]
            runs.append(replace(run, name=label, episodes=episodes))
    if not runs:
        raise RecordError(f"{path} has nothing to report")
    reading.runs += runs
    if results is not None and results.status not in (RUNNING, KILLED):
        reading.evaluated_folders |= {run.path for run in runs}


def _make_names_unique(runs: Sequence[Run]) -> list[Run]:
    """Name runs of the same name by their folders, below the one that contains all of these."""
    folders = [(run.path if run.path.is_dir() else run.path.parent).resolve() for run in runs]
    root, known = commonpath([f.parent for f in folders]), Counter(run.name for run in runs)
    return [
        replace(run, name=str(folder.relative_to(root))) if known[run.name] > 1 else run
        for run, folder in zip(runs, folders, strict=True)
    ]


def metric_titles(runs: Iterable[Run]) -> dict[str, str]:
    """Return the titles that rewards declare for their metrics, by metric name."""
    rewards = [reward for run in runs if (reward := reward_in(run.recipe))]
    return {
        names.fill_pattern(pattern, name): part.shown_as
        for reward in rewards
        for name, part in reward.parts.items()
        for pattern in (names.POINTS, names.VALUE)
        if part.shown_as
    }


VARYING_KEYS = ("seed", "name")
"""Recipe keys that may differ between the runs of a cohort."""

LABEL_KEYS = ("team", "task", "trainer.algorithm")
"""Recipe parts that go into a run's label, most important first."""

HOUSEKEEPING_KEYS = (
    "concurrency",
    "sandbox",
    "trainer.checkpoint_every",
    "trainer.keep_checkpoints",
    "trainer.report_episodes",
    "trainer.report_to",
)
"""Keys that do not change the results of a run."""

MAX_LABEL_SETTINGS = 3
MAX_LABEL_VALUE_LENGTH = 40
"""Maximum length of a value in a label, because prompts are longer."""


@dataclass(frozen=True)
class Cohort:
    """Runs of one recipe with different seeds."""

    label: str
    runs: list[Run]


def cohorts_of(runs: Sequence[Run]) -> list[Cohort]:
    """Return the runs grouped by recipe, labeled by the settings that differ."""
    groups = group_by(runs, _fingerprint)
    labels = _labels([*groups.values()])
    return [Cohort(label, group) for label, group in zip(labels, groups.values(), strict=True)]


def _fingerprint(run: Run) -> str:
    if not run.recipe:
        return str(run.path.resolve())
    return json.dumps([_compared_settings(run), file_digests(run.path)], sort_keys=True)


def _compared_settings(run: Run) -> dict[str, str]:
    settings = outcome_settings(run.recipe)
    return {key: str(settings[key]) for key in settings if key not in VARYING_KEYS}


def _labels(groups: Sequence[Sequence[Run]]) -> list[str]:
    labels = [_short_label(settings) for settings in _differences([group[0] for group in groups])]
    if "" in labels or len(set(labels)) < len(labels):
        return [" + ".join(run.name for run in group) for group in groups]
    return [
        f"{label}, {len(group)} seeds" if len(group) > 1 else label
        for label, group in zip(labels, groups, strict=True)
    ]


def _short_label(settings: Mapping[str, str]) -> str:
    """Return the settings that differ, in a few words, or "" if there are too many."""
    longest = max(map(len, settings.values()), default=0)
    if len(settings) > MAX_LABEL_SETTINGS or longest > MAX_LABEL_VALUE_LENGTH:
        return ""
    return ", ".join(
        v if key in LABEL_KEYS else f"{_leaf_key(key)} {v}" for key, v in settings.items()
    )


def _leaf_key(key: str) -> str:
    """Return the last part of a setting's key that is not `name` or `use`."""
    *before, last = key.split(".")
    return before[-1] if before and last in ("name", "use") else last


def _differences(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Return the settings of each run that are not the same in all runs.

    A part that differs as a whole is represented by its name alone.
    """
    label_names = [{part: _name_at(run.recipe, part) for part in LABEL_KEYS} for run in runs]
    others = [part for part in LABEL_KEYS if len({names[part] for names in label_names}) > 1]
    recipes = [_compared_settings(run) for run in runs]
    keys = [
        key
        for key, _ in find_differences(*recipes)
        if not any(f"{key}.".startswith(f"{part}.") for part in (*others, *HOUSEKEEPING_KEYS))
    ]
    return [
        {**{part: names[part] for part in others}, **{k: recipe.get(k, "none") for k in keys}}
        for names, recipe in zip(label_names, recipes, strict=True)
    ]


def _name_at(recipe: Mapping[str, Any], part: str) -> str:
    value = value_at(recipe, part)
    if isinstance(value, Mapping):
        value = value.get("name") or value.get("use")
    return str(value or "none")
