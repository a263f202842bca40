"""Evaluation from Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from collab.errors import CollabError, RecipeError
from collab.evaluation.evaluation import EvaluationRun
from collab.evaluation.results import EvaluationEvent, Results
from collab.evaluation.selection import Selection
from collab.evaluation.teams import choose_k, find_teams, labels_of
from collab.recipe import Recipe
from collab.recipe.in_python import (
    RUN_SECTIONS,
    ObjectConverter,
    Overrides,
    Rewards,
    Rows,
    TeamLike,
    reward_data,
    rows_in,
    split_keywords,
)
from collab.records import Episode
from collab.runtime import Team
from collab.runtime.events import EpisodeFinished
from collab.runtime.problems import flatten_addresses
from collab.runtime.waiting import wait_for
from collab.trust import Consent

OnEpisode = Callable[[Episode], object]


def evaluate(
    *teams: TeamLike | Team,
    task: str | Sequence[str] | Rows | None = None,
    rewards: Rewards | None = None,
    hidden: Sequence[str] | None = None,
    reward_from: str | None = None,
    split: str | None = None,
    samples: int = 1,
    k: Sequence[int] | None = None,
    seed: int = 0,
    greedy: bool = False,
    select: Selection | None = None,
    model: str | None = None,
    settings: Sequence[str] = (),
    on_episode: OnEpisode | None = None,
    on_event: Callable[[EvaluationEvent], object] | None = None,
    trust: Consent = False,
    out: str | Path | None = None,
    **more: Any,
) -> Results:
    """Evaluate teams side by side on the same tasks, and return the results, with failures counted.

    This also works in a notebook.

    Args:
        teams: names, files or folders of runs, as `collab.load` takes them, or `collab.Team`.
        task: one or several suites or addresses (`humaneval/0-19`), a list of rows, or None for
            each recipe's own.
        rewards: functions that replace the task's reward, e.g. `[right, (short, 0.5)]`.
        hidden: names of hidden fields, instead of the task's own.
        reward_from: the team whose reward scores all teams, if their rewards differ.
        samples: episodes per task; pass@k is estimated from them.
        split: the split of the suite to evaluate, e.g. `"test"`; None evaluates all of it.
        seed: seed of the sampling; equal seeds give equal episodes if the engine supports seeds.
        select: how to choose one program from several samples, e.g.
            `collab.Selection(recombine=True)`.
        greedy: use each agent's most likely response instead of a sampled one.
        model: the model of agents without their own.
        k: values of k for pass@k; None uses the usual ones that `samples` allows.
        settings: overrides as on the command line, for every team.
        on_episode: called with each episode when it ends; an exception ends the evaluation.
        on_event: called with every event, as it happens.
        trust: True approves the functions of third-party teams.
        out: folder for the record; calling again with it continues the evaluation. None writes no
            record.
        more: keys of the recipe or of its sections, set for every team, e.g. `max_new_tokens=64`.

    Raises:
        RecipeError, TaskError, ModelUnavailable, RecordError: the arguments are wrong, or something
            is missing; no episode has run.
        CollabError: no episode of any team finished. Other failures are counted in the results.
    """
    top = {*Recipe.model_fields} - {"team", "task"}
    keys, settings = split_keywords(more, RUN_SECTIONS, top_keys=top, typed_settings=settings)
    rows = rows_in(task)
    named = [team.recipe if isinstance(team, Team) else team for team in teams]
    python_teams = {
        label: team
        for label, team in zip(labels_of(named), teams, strict=True)
        if isinstance(team, Team)
    }
    scoring = [team for label, team in python_teams.items() if reward_from in (None, label)]
    shared = Overrides(
        task=rows,
        rewards=_resolve_shared(rewards, "rewards", scoring, _reward_data),
        hidden=_resolve_shared(hidden, "hidden", [*python_teams.values()], _hidden_names),
        settings=settings,
        keys={**keys, "samples": samples, "seed": seed, "model": model},
    )
    tasks = [] if task is None or rows is not None else flatten_addresses([task])
    evaluated_teams = find_teams(
        named, shared, tasks=tasks, reward_from=reward_from, split=split, greedy=greedy, trust=trust
    )
    if not isinstance(select, Selection | None):
        raise RecipeError(f"select takes a collab.Selection, got {select!r:.60}")
    ks = choose_k(k, evaluated_teams[0].recipe.samples)
    folder = Path(out) if out else None
    evaluation = EvaluationRun(evaluated_teams, ks, selection=select, out=folder, trust=trust)
    for warning in evaluation.check():
        warnings.warn(warning, stacklevel=2)

    async def follow() -> None:
        async with aclosing(evaluation.stream()) as events:
            async for event in events:
                if on_event is not None:
                    on_event(event)
                if on_episode is not None and isinstance(event, EpisodeFinished):
                    on_episode(event.episode)

    wait_for(follow())
    results = evaluation.results()
    failures = [team.total_failure for team in results.teams if team.total_failure]
    if len(failures) == len(results.teams):
        raise CollabError("; ".join(failures))
    for failure in failures:
        warnings.warn(failure, stacklevel=2)
    return results


def _resolve_shared(
    argument: Any, attribute: str, teams: Sequence[Team], data_of: Callable[[Any], Any]
) -> Any:
    """Return the argument, otherwise that of the teams that have one. Refuse teams with
    different ones, by `data_of`."""
    with_one = [team for team in teams if getattr(team, attribute) is not None]
    if argument is not None or not with_one:
        return argument
    first = getattr(with_one[0], attribute)
    for team in with_one[1:]:
        if data_of(getattr(team, attribute)) != data_of(first):
            names = f"'{with_one[0].recipe.team.name}' and '{team.recipe.team.name}'"
            raise RecipeError(f"the {attribute} of {names} differ; pass {attribute}= for all teams")
    return first


def _reward_data(rewards: Rewards) -> Any:
    return ObjectConverter().convert(reward_data(rewards))


def _hidden_names(hidden: str | Sequence[str]) -> set[str]:
    return {hidden} if isinstance(hidden, str) else {*hidden}
