"""The folder of a run, open for writing. It can be read at any time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from collab.errors import RecordError
from collab.recipe import Recipe
from collab.recipe.packing import RecipePacker
from collab.recipe.writing import write_recipe
from collab.records import Episode
from collab.runs.about import write_about
from collab.runs.atomic import Lock, check_no_other_files, explain_disk_errors
from collab.runs.layout import EPISODES, RECIPE, RUN
from collab.runs.log import Log
from collab.wording import format_option


class RunFolder:
    """A run's folder, open for writing."""

    def __init__(
        self, path: Path, recipe: Recipe, about: Mapping[str, Any], lock: Lock | None = None
    ) -> None:
        """Write the initial files.

        Raises:
            RecordError: the files cannot be written.
        """
        self.path, self._lock = path, lock
        with explain_disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            write_recipe(path / RECIPE, recipe, RecipePacker(path))
            write_about(path, {**about, "status": "running"})
            self._episodes = Log(path / EPISODES)

    @classmethod
    def create(
        cls, path: Path, recipe: Recipe, about: Mapping[str, Any], *, given_by: str = "out"
    ) -> RunFolder:
        """Make the folder, write the initial files, and return the folder, open for writing.

        `given_by` is the option that names the folder, for errors.

        Raises:
            RecordError: the folder already holds a run or other files, is being written, or cannot
                be written.
        """
        check_no_other_files(path, RUN, EPISODES, given_by=given_by)
        with ExitStack() as opened:
            lock = opened.enter_context(Lock(path))
            episodes = path / EPISODES
            if episodes.exists() and episodes.stat().st_size:
                raise RecordError(
                    f"{path} already contains a run; choose another folder with"
                    f" {format_option(given_by)}"
                )
            folder = cls(path, recipe, about, lock)
            opened.pop_all()
        return folder

    def append(self, episode: Episode) -> None:
        """Append a finished episode, completely or not at all.

        Raises:
            RecordError: the episode cannot be written. The earlier episodes are intact.
        """
        self._episodes.append(episode.model_dump_json())

    def close(self) -> None:
        """Close the files and release the folder to other writers."""
        self._episodes.close()
        if self._lock is not None:
            self._lock.release()

    def finish(self, about: Mapping[str, Any]) -> None:
        """Write the end of the run into `run.json`, and close the folder."""
        with closing(self):
            write_about(self.path, about)
