"""Several teams on the same problems, one after the other, on models that they share.

Teams take turns so that each one's speed is its own. Models are opened once for all of them, and
loaded before the first episode, so that no team pays for it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Literal

from collab.evaluation.compare import difference
from collab.evaluation.entrants import Entrant
from collab.evaluation.events import (
    EvaluationEvent,
    EvaluationFinished,
    EvaluationStarted,
    TeamFinished,
    TeamStarted,
)
from collab.evaluation.folder import Entry, EvaluationFolder
from collab.evaluation.intervals import CONFIDENCE
from collab.evaluation.lane import Lane
from collab.evaluation.results import Results, TeamResult
from collab.models.open import ModelPool
from collab.models.store import StoreProgress
from collab.recipe import RewardSpec
from collab.runs import metric_names as names
from collab.runs.about import new_run_id
from collab.runtime.team import versions
from collab.trust import Consent
from collab.wording import counted


class Evaluation:
    """Plays what is missing, and tells the results so far at any moment.

    Raises:
        RecordError: on construction: `out` holds something else, cannot be read, or is being
            written.
    """

    def __init__(
        self,
        entrants: Sequence[Entrant],
        ks: Sequence[int],
        *,
        out: Path | None = None,
        trust: Consent = False,
    ) -> None:
        self.entrants, self.ks, self.out = tuple(entrants), tuple(ks), out
        self.id = out.name if out else new_run_id(entrants[0].suite.name)
        self.status: Literal["running", "done", "interrupted", "failed"] = "running"
        self.begun = False
        self._folder = EvaluationFolder(out) if out else None
        self._lanes = [Lane(entrant, self._entry(entrant), trust) for entrant in entrants]

    async def stream(
        self, *, progress: bool = False, loading: StoreProgress | None = None
    ) -> AsyncGenerator[EvaluationEvent, None]:
        """The events as they happen, from `eval.started` to `eval.finished`.

        Use it with `contextlib.aclosing`: leaving early cancels what is under way.

        Raises:
            RecipeError, ModelUnavailable, ModelError: before the first episode.
            RecordError: the folder cannot be written.
        """
        try:
            async with AsyncExitStack() as stack:
                pool = await stack.enter_async_context(ModelPool(progress=loading))
                for lane in self._lanes:
                    await lane.prepare(pool, stack)
                for lane in self._lanes:
                    await lane.load()
                yield self._begin()
                for lane in self._lanes:
                    async with aclosing(self._play(lane, progress)) as events:
                        async for event in events:
                            yield event
            self.status = "done"
        except Exception:
            self.status = "failed"
            raise
        finally:
            self.close()
        yield EvaluationFinished(results=self.results())

    def close(self) -> None:
        """Write down how far it came, once."""
        if self.status == "running":
            self.status = "interrupted"
        folder, self._folder = self._folder, None
        if folder is not None:
            for lane in self._lanes:
                lane.close()
            if self.begun:
                folder.save(self.results())
            folder.close()

    def results(self) -> Results:
        """The numbers of every team that was begun, by this call or an earlier one."""
        first = self.entrants[0]
        judged = [lane.result(self.ks) for lane in self._lanes if lane.begun]
        teams = [result for result, _ in judged]
        return Results(
            evaluation=self.id,
            status=self.status,
            suite=first.suite.name,
            tasks=tuple(problem.address for problem in first.problems),
            samples=first.recipe.samples,
            k=self.ks,
            seed=first.recipe.seed,
            levels=_levels(first.suite.reward),
            confidence=CONFIDENCE,
            notes=(
                *self._of_teams(),
                *_notes(first.suite.name, teams),
                *self._fewer_problems(teams),
            ),
            command=tuple(sys.argv),
            versions=versions(),
            teams=tuple(teams),
            differences=tuple(
                difference(*judged[0], result, values) for result, values in judged[1:]
            ),
        )

    def _entry(self, entrant: Entrant) -> Entry | None:
        if self._folder is None:
            return None
        return Entry(self._folder.place_of(entrant.label, entrant.identity))

    async def _play(self, lane: Lane, progress: bool) -> AsyncGenerator[EvaluationEvent, None]:
        planned = lane.recorded + len(lane.missing)
        lane.begun = True
        self._save()
        yield TeamStarted(label=lane.entrant.label, planned=planned, recorded=lane.recorded)
        async with aclosing(lane.play(progress=progress)) as events:
            async for event in events:
                yield event
        self._save()
        yield TeamFinished(result=lane.result(self.ks)[0])

    def _of_teams(self) -> Iterator[str]:
        for entrant in self.entrants:
            yield from (f"{entrant.label}: {note}" for note in entrant.notes)

    def _fewer_problems(self, teams: Sequence[TeamResult]) -> Iterator[str]:
        """Where fewer than k episodes of a problem finished."""
        problems = len(self.entrants[0].problems)
        for team in teams:
            for k in self.ks if names.SOLVED in team.metrics else ():
                found = team.metrics.get(names.named(names.PASS_AT, k))
                counted = found.tasks if found else 0
                if counted < problems:
                    yield (
                        f"{team.label}: pass@{k} and the like are of {counted} of {problems}"
                        f" problems, those with {k} finished episodes"
                    )

    def _save(self) -> None:
        if self._folder:
            self._folder.save(self.results())

    def _begin(self) -> EvaluationStarted:
        self.begun = True
        self._save()
        for lane in self._lanes:
            lane.begin()
        first = self.entrants[0]
        return EvaluationStarted(
            evaluation=self.id,
            folder=str(self.out) if self.out else None,
            teams=tuple(entrant.label for entrant in self.entrants),
            models=tuple(dict.fromkeys(m for lane in self._lanes for m in lane.models.values())),
            suite=first.suite.name,
            tasks=tuple(problem.address for problem in first.problems),
            samples=first.recipe.samples,
            k=self.ks,
            seed=first.recipe.seed,
            isolation=first.recipe.sandbox.isolation,
            versions=versions(),
        )


def _levels(reward: RewardSpec) -> dict[str, tuple[str, ...]]:
    levels: dict[str, tuple[str, ...]] = {}
    for name, part in reward.parts.items():
        level = part.level or name
        levels[level] = (*levels.get(level, ()), name)
    return levels


def _notes(suite: str, teams: Sequence[TeamResult]) -> Iterator[str]:
    if any(team.metrics for team in teams) and not any(names.SOLVED in t.metrics for t in teams):
        yield (
            f"pass@k and 'solved' are left out: the reward of '{suite}' does not say when a problem"
            " is solved; mark a part of it with 'solves: true'"
        )
    for team in teams:
        if team.episodes < team.planned:
            yield f"{team.label}: {team.episodes} of {counted(team.planned, 'episode')} finished"
        if team.failed:
            types = ", ".join(f"{name} {count}" for name, count in team.failures.items())
            yield (
                f"{team.label}: {team.failed} of {counted(team.episodes, 'episode')} failed"
                f" ({types}) and count for nothing; the same command tries them again"
            )
