"""Evaluates several teams on the same problems, one after the other, with shared models.

Teams take turns, so that each team's speed can be measured. Models are opened once for all teams
and loaded before the first episode, so the time for loading counts for no team.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from collab.errors import RecordError
from collab.evaluation.folder import (
    EpisodeKey,
    EvaluationFolder,
    choose_episodes,
    keep_only,
    read_finished,
    read_results,
)
from collab.evaluation.intervals import CONFIDENCE
from collab.evaluation.results import (
    EvaluationEvent,
    EvaluationFinished,
    EvaluationStarted,
    Results,
    TeamFinished,
    TeamResult,
    TeamStarted,
)
from collab.evaluation.seeds import seed_groups
from collab.evaluation.selection import (
    Selection,
    check_selectable,
    selection_metrics,
    selection_notes,
)
from collab.evaluation.teams import EvaluatedTeam, name_team_in_errors
from collab.evaluation.values import ValuesByMetric, difference, speed_of, task_values, team_result
from collab.models.open import ModelPool
from collab.models.store import StoreProgress
from collab.recipe import RewardSpec
from collab.recipe.differences import changes_since
from collab.records import Episode
from collab.rewards.declared import best_levels
from collab.runs import metric_names as names
from collab.runs.about import command_line, new_run_id, now, read_about
from collab.runs.layout import EPISODES, EVAL, RECIPE, RUN
from collab.runtime import Session
from collab.runtime.episode import Start
from collab.runtime.events import EpisodeFinished
from collab.runtime.folder import RunFolder
from collab.runtime.notes import make_run_started, versions
from collab.runtime.prompt_check import check_prompts
from collab.runtime.summary import summarize, warn_uncounted
from collab.telemetry import Operation, operation
from collab.trust import Consent, approve
from collab.wording import counted, format_option


class EvaluationRun:
    """Runs the missing episodes. The results so far are available at any moment.

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
                check_selectable(team.recipe, selection, team.problems)
        if out is not None:
            _check_no_numbers_lost(out, teams)
        self._selection = selection
        self.teams, self.ks, self.out = tuple(teams), tuple(ks), out
        self.id = out.name if out else new_run_id(teams[0].suite.name)
        self.status: Literal["running", "done", "interrupted", "failed"] = "running"
        self.begun = False
        self._folder = folder = EvaluationFolder(out) if out else None
        self._runs = [
            TeamRun(team, folder.team_folder(team.label, team.identity) if folder else None, trust)
            for team in teams
        ]

    def check(self) -> list[str]:
        """Check the prompts of each team with missing episodes, after approval. Return warnings.

        Raises:
            Untrusted: third-party code is not approved; nothing has run.
            RecipeError: a team cannot be run, e.g. its prompt needs a field that no row has.
        """
        try:
            for run in self._runs:
                run.approve()
            warnings: list[str] = []
            for team in (run.team for run in self._runs if run.missing):
                with name_team_in_errors(team, self.teams):
                    check = check_prompts(team.recipe, team.problems)
                label = f"{team.label}: " if len(self.teams) > 1 else ""
                warnings += [f"{label}{warning}" for warning in check.warnings]
            return warnings
        except BaseException:
            self.close()
            raise

    async def stream(
        self, *, progress: bool = False, loading: StoreProgress | None = None
    ) -> AsyncGenerator[EvaluationEvent, None]:
        """Yield the events as they happen, from `eval.started` to `eval.finished`.

        Use it with `contextlib.aclosing`: leaving early cancels the work in progress.

        Raises:
            RecipeError, ModelUnavailable, ModelError: before the first episode.
            RecordError: the folder cannot be written.
        """
        try:
            async with AsyncExitStack() as stack:
                planned = {"collab.teams": len(self.teams)}
                span = stack.enter_context(operation(f"eval {self.teams[0].suite.name}", planned))
                pool = await stack.enter_async_context(ModelPool(progress=loading))
                for run in self._runs:
                    await run.prepare(pool, stack, span)
                for run in self._runs:
                    if run.session:
                        await run.session.load()
                yield self._begin()
                for run in self._runs:
                    async with aclosing(self._events_of(run, progress)) as events:
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
        """Write the status and the results into the folder. A second call does nothing."""
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
        """Return the results of every team that has episodes, including those of earlier calls."""
        first = self.teams[0]
        begun = [run.result(self.ks) for run in self._runs if run.begun]
        teams = [result for result, _ in begun]
        return Results(
            **self._common_fields(),
            status=self.status,
            levels=_parts_by_level(first.suite.reward),
            best_levels=best_levels(first.suite.reward),
            confidence=CONFIDENCE,
            notes=tuple(self._notes(teams)),
            command=tuple(command_line()),
            teams=tuple(teams),
            differences=tuple(
                difference(*begun[0], result, values) for result, values in begun[1:]
            ),
            over_seeds=tuple(seed_groups(teams)),
        )

    async def _events_of(
        self, run: TeamRun, progress: bool
    ) -> AsyncGenerator[EvaluationEvent, None]:
        planned = run.recorded + len(run.missing)
        run.begun = True
        self._save()
        yield TeamStarted(label=run.team.label, planned=planned, recorded=run.recorded)
        if run.session:
            seed = run.team.recipe.seed
            played = run.session.stream(run.missing, seed=seed, progress=progress)
            async with aclosing(played) as events:
                async for event in events:
                    if isinstance(event, EpisodeFinished):
                        run.add(event.episode)
                    yield event
        if self._selection is not None:
            await run.select(self.ks, self._selection)
        self._save()
        yield TeamFinished(result=run.result(self.ks)[0])

    def _notes(self, results: Sequence[TeamResult]) -> Iterator[str]:
        """Yield a note on each missing number, with the reason."""
        suite, problems = self.teams[0].suite.name, len(self.teams[0].problems)
        yield from (
            f"{run.team.label}: {note}"
            for run in self._runs
            for note in (*run.team.notes, *warn_uncounted(run.episodes.values()))
        )
        scored = any(team.metrics for team in results)
        if scored and not any(names.SOLVED in team.metrics for team in results):
            yield (
                f"pass@k and 'solved' are left out: the reward of '{suite}' does not say when a"
                " problem is solved; mark a part of it with 'solves: true'"
            )
        if self._selection is not None and self._selection.examples:
            yield from selection_notes(self.teams[0].problems)
        for team in results:
            if team.episodes < team.planned:
                planned = counted(team.planned, "episode")
                yield f"{team.label}: {team.episodes} of {planned} finished"
            if team.failed:
                types = ", ".join(f"{name} {count}" for name, count in team.failures.items())
                yield (
                    f"{team.label}: {team.failed} of {counted(team.episodes, 'episode')} failed"
                    f" ({types}) and do not count; the same command runs them again"
                )
        for team in results:
            for k in self.ks if names.SOLVED in team.metrics else ():
                metric = team.metrics.get(names.fill_pattern(names.PASS_AT, k))
                known = metric.tasks if metric else 0
                if known < problems:
                    yield (
                        f"{team.label}: pass@{k} and other values at {k} cover {known} of"
                        f" {problems} problems: those with {k} finished episodes"
                    )

    def _save(self) -> None:
        if self._folder:
            self._folder.save(self.results())

    def _begin(self) -> EvaluationStarted:
        self.begun = True
        self._save()
        for run in self._runs:
            run.begin()
        return EvaluationStarted(
            **self._common_fields(),
            folder=str(self.out) if self.out else None,
            teams=tuple(team.label for team in self.teams),
            models=tuple(dict.fromkeys(m for run in self._runs for m in run.models.values())),
            isolation=self.teams[0].recipe.sandbox.isolation,
        )

    def _common_fields(self) -> dict[str, Any]:
        """Return the fields that the first event and the results have in common."""
        first = self.teams[0]
        return {
            "evaluation": self.id,
            "suite": first.suite.name,
            "tasks": tuple(problem.address for problem in first.problems),
            "samples": first.recipe.samples,
            "k": self.ks,
            "seed": first.recipe.seed,
            "versions": versions(),
        }


def _check_no_numbers_lost(path: Path, teams: Sequence[EvaluatedTeam]) -> None:
    """Check that no numbers of a finished evaluation in the folder `path` are lost.

    Raises:
        RecordError: a team is missing or differs. The message says how.
    """
    if not (path / EVAL).exists():
        return
    try:
        before = read_results(path)
    except RecordError as error:
        raise RecordError(f"{error}; choose another folder with {format_option('out')}") from None
    now, identities = {t.label: t.recipe for t in teams}, {t.identity for t in teams}
    for team in before.teams if before.status == "done" else ():
        if team.identity in identities:
            continue
        how = f"the team {team.label} is missing now"
        if team.label in now:
            recipe = path / (team.folder or team.label) / RECIPE
            listed = "; ".join(changes_since(recipe, now[team.label]))
            how = f"{team.label}: {listed or 'the version of collab or a file has changed'}"
        raise RecordError(
            f"{path} contains an evaluation that is done, and its numbers would be lost: {how};"
            f" choose another folder with {format_option('out')}"
        )


def _parts_by_level(reward: RewardSpec | None) -> dict[str, tuple[str, ...]]:
    levels: dict[str, tuple[str, ...]] = {}
    for name, part in reward.parts.items() if reward else ():
        level = part.level or name
        levels[level] = (*levels.get(level, ()), name)
    return levels


class TeamRun:
    """One team's episodes: those recorded, those still to be run, and their record."""

    def __init__(self, team: EvaluatedTeam, path: Path | None, trust: Consent) -> None:
        """Read the recorded episodes of the team.

        Raises:
            RecordError: the folder cannot be read.
        """
        self.team, self.path, self._trust = team, path, trust
        self._about: dict[str, Any] = read_about(path) if path and (path / RUN).exists() else {}
        self.episodes: dict[EpisodeKey, Episode] = read_finished(path / EPISODES) if path else {}
        self._record: RunFolder | None = None
        self.recorded = len(team.problems) * team.recipe.samples - len(self.missing)
        self.begun = self.recorded > 0
        self.models: dict[str, str] = self._about.get("models", {})
        """The name of the model that answers, by agent."""
        self.session: Session | None = None
        self._selected: ValuesByMetric = {}

    @property
    def missing(self) -> list[Start]:
        """Episodes that are still to be run."""
        team = self.team
        return [
            Start(problem, group=row, sample=sample)
            for problem, row in zip(team.problems, team.rows, strict=True)
            for sample in range(team.recipe.samples)
            if (problem.address, sample) not in self.episodes
        ]

    def approve(self) -> None:
        """Ask for approval before anything runs, if episodes are missing.

        Raises:
            Untrusted: a team is third-party, would run code, and is not approved.
        """
        if self.missing:
            approve(self.team.question, self._trust)
            self._trust = True

    async def prepare(self, pool: ModelPool, stack: AsyncExitStack, within: Operation) -> None:
        """Open models and tools, if episodes are missing, with spans below `within`.

        Raises:
            RecipeError, ModelUnavailable: a team cannot be run.
            Untrusted: a team is third-party, would run code, and is not approved.
        """
        recipe = self.team.recipe
        if self.missing:
            self.approve()
            session = Session(recipe, pool=pool, within=within)
            self.session = await stack.enter_async_context(session)
            self.models = dict(session.model_names())

    def begin(self) -> None:
        """Write the start of the team's run into its folder.

        Raises:
            RecordError: the record cannot be written.
        """
        if self.path:
            keep_only(self.path / EPISODES, self.episodes)
            self._about = self._new_about(self.path)
            self._record = RunFolder(self.path, self.team.recipe, self._about)

    def add(self, episode: Episode) -> None:
        """Add a finished episode, and record it."""
        self.episodes[episode.task, episode.sample] = episode
        if self._record:
            self._record.append(episode)

    async def select(self, ks: Sequence[int], selection: Selection) -> None:
        """Add metrics to `result`: for each k, choose one of k samples by the prompts' tests."""
        recipe, problems = self.team.recipe, self.team.problems
        self._selected = await selection_metrics(recipe, problems, self._groups(), ks, selection)

    def close(self) -> None:
        """Write the team's status and summary into the record."""
        if self._record:
            episodes = [*chain.from_iterable(self._groups().values())]
            speed = speed_of(episodes)
            summary = summarize(episodes, speed.seconds if speed else 0.0)
            status = "interrupted" if self.missing else "done"
            self._record.finish({**self._about, "status": status, "summary": summary})

    def result(self, ks: Sequence[int]) -> tuple[TeamResult, ValuesByMetric]:
        """Return the team's results, and their values by metric and task."""
        team, groups = self.team, self._groups()
        values = task_values(groups, ks, team.recipe.reward)
        if team.recipe.team.turns == 1:
            values.pop(names.LAST_REWARD_SHARE, None)
        values |= self._selected
        folder = self.path.name if self.path else None
        result = team_result(team, groups, values, folder=folder, models=self.models)
        return result, values

    def _groups(self) -> dict[str, list[Episode]]:
        tasks = [problem.address for problem in self.team.problems]
        return choose_episodes(self.episodes, tasks, self.team.recipe.samples)

    def _new_about(self, path: Path) -> dict[str, Any]:
        recipe, problems = self.team.recipe, self.team.problems
        opening = make_run_started(recipe, self.models, problems, recipe.samples, path)
        return {
            **opening.model_dump(mode="json", exclude={"folder"}, exclude_defaults=True),
            "started": self._about.get("started") or now(),
            "identity": self.team.identity,
        }
