"""Several teams on the same problems, one after the other, on models that they share.

Teams take turns so that each one's speed is its own. Models are opened once for all of them, and
loaded before the first episode, so that no team pays for it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from pathlib import Path
from typing import Literal

from collab.evaluation.compare import difference
from collab.evaluation.events import (
    EvaluationEvent,
    EvaluationFinished,
    EvaluationStarted,
    TeamFinished,
    TeamStarted,
)
from collab.evaluation.folder import EvaluationFolder, TeamFolder
from collab.evaluation.intervals import CONFIDENCE
from collab.evaluation.results import Results, TeamResult
from collab.evaluation.selection import Selection, check_selectable
from collab.evaluation.team_run import TeamRun
from collab.evaluation.teams import EvaluatedTeam
from collab.models.open import ModelPool
from collab.models.store import StoreProgress
from collab.recipe import RewardSpec
from collab.runs import metric_names as names
from collab.runs.about import new_run_id
from collab.runtime.dry_run import dry_run
from collab.runtime.team import versions
from collab.telemetry import operation
from collab.trust import Consent
from collab.wording import counted


class Evaluation:
    """Plays what is missing, and tells the results so far at any moment.

    Raises:
        RecordError: on construction: `out` holds something else, cannot be read, or is being
            written.
        RecipeError: on construction: `selection` does not fit a team.
    """

    def __init__(
        self,
        teams: Sequence[EvaluatedTeam],
        ks: Sequence[int],
        *,
        selection: Selection | None = None,
        out: Path | None = None,
        trust: Consent = False,
    ) -> None:
        if selection is not None:
            for team in teams:
                check_selectable(team.recipe, selection)
        self._selection = selection
        self.teams, self.ks, self.out = tuple(teams), tuple(ks), out
        self.id = out.name if out else new_run_id(teams[0].suite.name)
        self.status: Literal["running", "done", "interrupted", "failed"] = "running"
        self.begun = False
        self._folder = EvaluationFolder(out) if out else None
        self._runs = [TeamRun(team, self._folder_of(team), trust) for team in teams]

    def check(self) -> list[str]:
        """Rehearse each team with missing episodes, after approval; returns warnings.

        Raises:
            Untrusted: nobody approved; nothing has run.
            RecipeError: a team cannot be played, e.g. its prompt needs a field that no row has.
        """
        with ExitStack() as on_refusal:
            on_refusal.callback(self.close)
            for run in self._runs:
                run.settle()
            missing = [run.team for run in self._runs if run.missing]
            warnings = [w for t in missing for w in dry_run(t.recipe, t.problems).warnings]
            on_refusal.pop_all()
        return warnings

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
                planned = {"collab.teams": len(self.teams)}
                whole = stack.enter_context(operation(f"eval {self.teams[0].suite.name}", planned))
                pool = await stack.enter_async_context(ModelPool(progress=loading))
                for run in self._runs:
                    await run.prepare(pool, stack, whole)
                for run in self._runs:
                    await run.load()
                yield self._begin()
                for run in self._runs:
                    async with aclosing(self._play(run, progress)) as events:
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
            for run in self._runs:
                run.close()
            if self.begun:
                folder.save(self.results())
            folder.close()

    def results(self) -> Results:
        """The numbers of every team that was begun, by this call or an earlier one."""
        first = self.teams[0]
        judged = [run.result(self.ks) for run in self._runs if run.begun]
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

    def _folder_of(self, team: EvaluatedTeam) -> TeamFolder | None:
        if self._folder is None:
            return None
        return TeamFolder(self._folder.place_of(team.label, team.identity))

    async def _play(self, run: TeamRun, progress: bool) -> AsyncGenerator[EvaluationEvent, None]:
        planned = run.recorded + len(run.missing)
        run.begun = True
        self._save()
        yield TeamStarted(label=run.team.label, planned=planned, recorded=run.recorded)
        async with aclosing(run.play(progress=progress)) as events:
            async for event in events:
                yield event
        if self._selection is not None:
            await run.select(self.ks, self._selection)
        self._save()
        yield TeamFinished(result=run.result(self.ks)[0])

    def _of_teams(self) -> Iterator[str]:
        for team in self.teams:
            yield from (f"{team.label}: {note}" for note in team.notes)

    def _fewer_problems(self, teams: Sequence[TeamResult]) -> Iterator[str]:
        """Where fewer than k episodes of a problem finished."""
        problems = len(self.teams[0].problems)
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
        for run in self._runs:
            run.begin()
        first = self.teams[0]
        return EvaluationStarted(
            evaluation=self.id,
            folder=str(self.out) if self.out else None,
            teams=tuple(team.label for team in self.teams),
            models=tuple(dict.fromkeys(m for run in self._runs for m in run.models.values())),
            suite=first.suite.name,
            tasks=tuple(problem.address for problem in first.problems),
            samples=first.recipe.samples,
            k=self.ks,
            seed=first.recipe.seed,
            isolation=first.recipe.sandbox.isolation,
            versions=versions(),
        )


def _levels(reward: RewardSpec | None) -> dict[str, tuple[str, ...]]:
    levels: dict[str, tuple[str, ...]] = {}
    for name, part in reward.parts.items() if reward else ():
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
