"""One team of an evaluation: what is recorded of it, what is missing, and its numbers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from collab.evaluation.compare import groups_values, speed_of, team_result
from collab.evaluation.folder import Key, TeamFolder, chosen
from collab.evaluation.results import TeamResult
from collab.evaluation.selection import Selection, selected
from collab.evaluation.teams import EvaluatedTeam
from collab.evaluation.values import Values
from collab.models.open import ModelPool
from collab.records import Episode
from collab.runs.about import now
from collab.runtime import Event, Session
from collab.runtime.episode import Start
from collab.runtime.events import EpisodeFinished
from collab.runtime.summary import summarise
from collab.runtime.team import versions
from collab.telemetry import Operation
from collab.trust import Consent, settle


class TeamRun:
    """Plays what is missing of one team, and records it."""

    def __init__(self, team: EvaluatedTeam, folder: TeamFolder | None, trust: Consent) -> None:
        self.team, self.folder, self._trust = team, folder, trust
        self.episodes: dict[Key, Episode] = dict(folder.episodes) if folder else {}
        self.recorded = len(team.problems) * team.recipe.samples - len(self.missing)
        self.begun = self.recorded > 0
        self.models: dict[str, str] = folder.about.get("models", {}) if folder else {}
        """The name of the model that answers, by agent."""
        self._session: Session | None = None
        self._selected: Values = {}

    @property
    def missing(self) -> list[Start]:
        """The episodes that are still to be played."""
        team = self.team
        return [
            Start(problem, group=row, sample=sample)
            for problem, row in zip(team.problems, team.rows, strict=True)
            for sample in range(team.recipe.samples)
            if (problem.address, sample) not in self.episodes
        ]

    def settle(self) -> None:
        """Ask what is to be asked before anything is played; nothing where nothing is missing.

        Raises:
            Untrusted: it comes from elsewhere and would run code, and there is no yes.
        """
        if self.missing:
            settle(self.team.question, self._trust)
            self._trust = True

    async def prepare(self, pool: ModelPool, stack: AsyncExitStack, within: Operation) -> None:
        """Open all that playing takes; nothing where nothing is missing.

        Its spans stand below that of `within`.

        Raises:
            RecipeError, ModelUnavailable: it cannot be played.
            Untrusted: it comes from elsewhere and would run code, and there is no yes.
        """
        recipe = self.team.recipe
        if self.missing:
            self.settle()
            self._session = Session(recipe, pool=pool, within=within)
            await stack.enter_async_context(self._session)
            self.models = dict(self._session.model_names())

    async def load(self) -> None:
        """Load the models of what is missing; raises as `Session.load`."""
        if self._session:
            await self._session.load()

    def begin(self) -> None:
        """Begin the record; raises RecordError where that cannot be done."""
        if self.folder:
            self.folder.begin(self.team.recipe, self._about(self.folder))

    async def play(self, *, progress: bool) -> AsyncGenerator[Event, None]:
        """Play what is missing; to be left as `Session.play` is."""
        if self._session is None:
            return
        played = self._session.play(self.missing, seed=self.team.recipe.seed, progress=progress)
        async with aclosing(played) as events:
            async for event in events:
                if isinstance(event, EpisodeFinished):
                    self._add(event.episode)
                yield event

    async def select(self, ks: Sequence[int], how: Selection) -> None:
        """Choose programs of k samples by what the prompts show; `result` has the metrics."""
        recipe, problems = self.team.recipe, self.team.problems
        self._selected = await selected(recipe, problems, self._groups(), ks, how)

    def close(self) -> None:
        """Write into the record how far the team came."""
        if self.folder:
            status = "interrupted" if self.missing else "done"
            episodes = [*self.episodes.values()]
            speed = speed_of(episodes)
            self.folder.close(status, summarise(episodes, speed.seconds if speed else 0.0))

    def result(self, ks: Sequence[int]) -> tuple[TeamResult, Values]:
        """The team's numbers, and the values by task that they come from."""
        team, groups = self.team, self._groups()
        values = {**groups_values(team, groups, ks), **self._selected}
        folder = self.folder.path.name if self.folder else None
        result = team_result(team, groups, values, folder=folder, models=self.models)
        return result, values

    def _groups(self) -> dict[str, list[Episode]]:
        tasks = [problem.address for problem in self.team.problems]
        return chosen(self.episodes, tasks, self.team.recipe.samples)

    def _add(self, episode: Episode) -> None:
        self.episodes[episode.task, episode.sample] = episode
        if self.folder:
            self.folder.append(episode)

    def _about(self, folder: TeamFolder) -> dict[str, Any]:
        recipe, team = self.team.recipe, self.team.recipe.team
        return {
            "run": folder.path.name,
            "started": folder.about.get("started") or now(),
            "identity": self.team.identity,
            "team": team.name,
            "agents": list(team.agents),
            "models": self.models,
            "tasks": [problem.address for problem in self.team.problems],
            "samples": recipe.samples,
            "turns": team.turns,
            "seed": recipe.seed,
            "isolation": recipe.sandbox.isolation,
            "versions": versions(recipe),
        }
