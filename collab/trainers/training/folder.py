"""What training leaves behind: a folder that is readable, and a team that runs, at every moment.

recipe.yaml        the trained team: `collab run FOLDER`
training.yaml      the recipe as it was trained
run.json           what was run, with which versions, and how it ended
episodes.jsonl     one episode of training a line
metrics.jsonl      one step or evaluation a line
evaluation.jsonl   one held-out episode a line, as they end, with its step and mode
adapters/POLICY/   the policies in PEFT's format (models/AGENT/ for whole models)
checkpoints/       see `collab.trainers.training.checkpoints`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collab.errors import RecordError
from collab.recipe import Recipe
from collab.recipe.documents import parse_json
from collab.recipe.model import TransformersModel
from collab.records import EPISODES, Episode
from collab.runs.folder import RECIPE, RUN, read_about, write_atomically, write_recipe
from collab.runs.packing import Packing
from collab.trainers.learner.policy import Policies, with_adapters
from collab.trainers.training.events import HeldOut
from collab.trainers.training.names import EVALUATION, METRICS, TRAINING


class TrainingFolder:
    """A training run's folder, open for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.packing = Packing(path)
        self._streams = {name: (path / name).open("ab", buffering=0) for name in _LOGS}

    @classmethod
    def create(cls, path: Path, recipe: Recipe, about: Mapping[str, Any]) -> TrainingFolder:
        """Make the folder and write what is known at the start.

        Raises:
            RecordError: the folder holds a run already, or cannot be written.
        """
        cls.check_is_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path)
            write_recipe(path / TRAINING, recipe, folder.packing)
        except OSError as error:
            raise RecordError(f"{path} cannot be written: {error.strerror}") from error
        folder.about(about)
        return folder

    @classmethod
    def reopen(cls, path: Path, about: Mapping[str, Any]) -> TrainingFolder:
        """Open a run that is gone on with, and write what is known of it now.

        Raises:
            RecordError: the folder is no training run's, or cannot be written.
        """
        cls.check_holds_run(path)
        try:
            folder = cls(path)
        except OSError as error:
            raise RecordError(f"{path} cannot be written: {error.strerror}") from error
        folder.about(about)
        return folder

    @staticmethod
    def check_is_free(path: Path) -> None:
        """Raise RecordError for a folder that holds a run."""
        if (path / EPISODES).exists():
            raise RecordError(
                f"{path} holds a run already; give another folder with --out, or go on with"
                f" --resume {path}"
            )

    @staticmethod
    def check_holds_run(path: Path) -> None:
        """Raise RecordError for a folder that is no training run's."""
        if not (path / TRAINING).is_file():
            raise RecordError(f"{path} is no training run: it has no {TRAINING}")

    def about(self, about: Mapping[str, Any]) -> None:
        """Write `run.json` anew."""
        self._write(RUN, json.dumps(dict(about), indent=2))

    def append_episode(self, episode: Episode) -> None:
        self._append(EPISODES, episode.model_dump_json())

    def append_held_out(self, played: HeldOut) -> None:
        self._append(EVALUATION, played.model_dump_json())

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        self._append(METRICS, json.dumps(dict(row)))

    def rows(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`."""
        data = (self.path / METRICS).read_bytes()
        try:
            return [parse_json(line) for line in data.split(b"\n")[:-1]]
        except ValueError as error:
            raise RecordError(f"{self.path / METRICS}: not JSON lines: {error}") from error

    def sizes(self) -> dict[str, int]:
        """How long the logs are, in bytes."""
        return {name: (self.path / name).stat().st_size for name in _LOGS}

    def cut(self, sizes: Mapping[str, int]) -> None:
        """Forget what was logged later, which is to be done again."""
        for name in _LOGS:
            self._streams[name].truncate(sizes.get(name, 0))

    def save_team(self, recipe: Recipe, policies: Policies) -> None:
        """Write the team as it is now, for `collab run`; files are replaced one by one, whole."""
        trained = recipe.model_copy(update={"trainer": None})
        try:
            for policy in policies:
                kind = "adapters" if policy.is_adapter else "models"
                policy.save(self.path / kind / policy.name)
        except (OSError, RuntimeError) as error:
            raise RecordError(f"{self.path}: the team cannot be written: {error}") from error
        trained = with_adapters(
            trained,
            {a: f"adapters/{p.name}" if p.is_adapter else None for p in policies for a in p.agents},
        )
        try:
            write_recipe(self.path / RECIPE, _with_models(trained, policies), self.packing)
        except OSError as error:
            raise RecordError(f"{self.path}: {RECIPE} cannot be written: {error}") from error

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()

    def _write(self, name: str, text: str) -> None:
        try:
            write_atomically(self.path / name, text)
        except OSError as error:
            raise RecordError(f"{self.path / name} cannot be written: {error.strerror}") from error

    def _append(self, name: str, line: str) -> None:
        """Add a line, whole or not at all."""
        data = line.encode() + b"\n"
        stream = self._streams[name]
        before = stream.seek(0, 2)
        try:
            written = stream.write(data)
        except OSError as error:
            stream.truncate(before)
            raise RecordError(_full(self.path / name, str(error.strerror))) from error
        if written != len(data):
            stream.truncate(before)
            raise RecordError(_full(self.path / name, f"only {written} of {len(data)} bytes fit"))


_LOGS = (EPISODES, METRICS, EVALUATION)


def _full(path: Path, reason: str) -> str:
    return f"{path}: {reason}; free some room, then go on with --resume {path.parent}"


def _with_models(recipe: Recipe, policies: Policies) -> Recipe:
    """Point the agents of whole models to their folders."""
    agents = dict(recipe.team.agents)
    for policy in policies:
        if not policy.is_adapter:
            spec = policy.engine.spec
            model = TransformersModel(
                name=f"models/{policy.name}", **spec.model_dump(exclude={"name", "revision"})
            )
            agents[policy.name] = agents[policy.name].model_copy(update={"model": model})
    return recipe.model_copy(update={"team": recipe.team.model_copy(update={"agents": agents})})


__all__ = ["METRICS", "TRAINING", "TrainingFolder", "read_about"]
