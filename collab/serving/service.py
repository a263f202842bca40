"""What all requests share: the teams, the lanes, the counters, and whether the doors are open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from collab.errors import RecordError
from collab.models import Model
from collab.models.store import StoreProgress
from collab.recipe import Recipe
from collab.records import Episode
from collab.runs.about import new_run_id
from collab.runtime.folder import RunFolder
from collab.serving.lanes import Lanes
from collab.serving.metrics import Metrics
from collab.serving.refusal import SERVER, Refused, unavailable, unknown_model
from collab.serving.settings import Settings
from collab.serving.team import ServedTeam
from collab.serving.teams import Teams

LOG = logging.getLogger("collab.serving")


class Service:
    """The teams of one server, while they are open."""

    def __init__(
        self,
        recipes: Mapping[str, Recipe],
        settings: Settings,
        *,
        models: Mapping[str, Mapping[str, Model]] | None = None,
        loading: StoreProgress | None = None,
    ) -> None:
        self.settings = settings
        self.teams = Teams(recipes, settings, models=models, loading=loading)
        self.lanes = Lanes(1, settings.queue)
        self.metrics = Metrics(self.lanes)
        self.shut = asyncio.Event()
        """Set when what is under way is to be cancelled."""
        self._is_ready = False
        self._folders: dict[str, RunFolder] = {}
        self._kept = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Open the teams' models; closes them.

        Raises:
            CollabError: something is missing, or the record cannot be written.
        """
        async with self.teams:
            self.lanes.widen(self.settings.concurrency or self.teams.lanes())
            try:
                self._open_records()
                self.shut = asyncio.Event()  # of the event loop that runs now
                self._is_ready = True
                yield
            finally:
                self._is_ready = False
                self.shut.set()
                for folder in self._folders.values():
                    folder.close()

    @property
    def is_ready(self) -> bool:
        """Whether requests are taken."""
        return self._is_ready and not self.shut.is_set()

    def drain(self) -> None:
        """Take no further request; those under way go on."""
        self._is_ready = False

    def team(self, name: str) -> ServedTeam:
        """The team of that name.

        Raises:
            Refused: there is none, or none is open.
        """
        self.check_ready()
        if name not in self.teams:
            raise unknown_model(self.teams)
        return self.teams[name]

    def check_ready(self) -> None:
        """Raise Refused unless requests are taken."""
        if not self.is_ready:
            raise unavailable("the server is starting, or is about to stop")

    def keep(self, team: ServedTeam, episode: Episode, name: str) -> None:
        """Append an episode to the record under a name of its own, where a record is wanted.

        Raises:
            Refused: it cannot be written.
        """
        if folder := self._folders.get(team.name):
            names = {"task": f"served/{name}", "id": f"served/{name}#0", "group": self._kept}
            self._kept += 1
            try:
                folder.append(episode.model_copy(update=names))
            except RecordError as error:
                LOG.error("an episode is not in the record: %s", error)
                told = f"the episode cannot be kept in the server's record: {_why(error)}"
                raise Refused(500, "RecordError", told, kind=SERVER) from error

    def _open_records(self) -> None:
        if self.settings.record is None:
            return
        for name, team in self.teams.items():
            several = len(self.teams) > 1
            folder = self.settings.record / name if several else self.settings.record
            about = {"run": new_run_id(name), "team": team.recipe.team.name, "command": ["serve"]}
            self._folders[name] = RunFolder.create(folder, team.recipe, about)


def _why(error: RecordError) -> str:
    """What went wrong, without the file that it went wrong with."""
    cause = error.__cause__
    return cause.strerror or "no reason is known" if isinstance(cause, OSError) else "no room"
