"""From the episodes of a run to a probe."""

from __future__ import annotations

import time
from collections.abc import Sequence

from collab.probe.advice import advice_on
from collab.probe.crossing import Crossing, Judged, is_dead, shares
from collab.probe.estimates import any_solved, estimate, share_solved
from collab.probe.games import Groups, best_game, game_of
from collab.probe.results import AgentProbe, Best, Crossed, Probe
from collab.recipe import Recipe
from collab.recipe.model import local_weights
from collab.records import Action, Episode, Problem
from collab.runs import metric_names as names
from collab.stats import mean
from collab.trainers.credit.marloo import marloo


async def probe(
    recipe: Recipe, problems: Sequence[Problem], episodes: Sequence[Episode], seconds: float
) -> Probe:
    """What the `episodes` of `problems` say of the team; `seconds` is what playing them took.

    Further joint actions are judged, as `algorithm: cross` would; no model is asked.

    Raises:
        RecipeError, SandboxUnavailable: what judges cannot be opened.
    """
    began = time.perf_counter()
    groups = _groups(problems, episodes)
    crossing = Crossing(recipe)
    played = [(p, groups[p.address]) for p in problems if len(groups.get(p.address, ())) > 1]
    judged = await crossing.judge(played)
    crossed = await _crossed(crossing, judged, tuple(recipe.team.agents))
    failures = [e.failure for e in episodes if e.failure]
    whole = [episode for group in groups.values() for episode in group]
    is_game = recipe.task is not None and recipe.task.environment is not None
    maximum = max((e.largest_return or 0.0 for e in whole), default=0.0)
    returns = [[e.joint_return or 0.0 for e in group] for group in groups.values()]
    found = Probe(
        team=recipe.team.name,
        protocol=str(recipe.team.protocol),
        turns=recipe.team.turns,
        tasks=tuple(problem.address for problem, _ in played),
        samples=recipe.samples,
        episodes=len(episodes),
        failed=len(failures),
        failure=f"{failures[0].type}: {failures[0].message}" if failures else None,
        maximum=maximum,
        reward_maximum=max((s.maximum for item in judged for s in item.played), default=0.0),
        mean=estimate([mean(each) for each in returns], maximum),
        solved=share_solved([[e.score for e in group] for group in groups.values()]),
        dead=sum(is_dead(marloo(item.group)) for item in judged),
        agents={name: _agent(recipe, name, groups) for name in recipe.team.agents},
        crossed=crossed,
        game=game_of(groups, recipe.team.agents, crosses=crossing.crosses) if is_game else None,
        best=_best(judged) if crossing.crosses else best_game(groups),
        tokens=sum(_tokens(e) for e in episodes),
        seconds=round(seconds, 3),
        judging_seconds=round(time.perf_counter() - began, 3),
    )
    return found.model_copy(update={"advice": tuple(advice_on(found))})


def _groups(problems: Sequence[Problem], episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
    groups: dict[str, list[Episode]] = {problem.address: [] for problem in problems}
    for episode in sorted(episodes, key=lambda episode: episode.sample):
        if episode.failure is None and episode.joint_return is not None:
            groups[episode.task].append(episode)
    return {task: group for task, group in groups.items() if group}


async def _crossed(
    crossing: Crossing, judged: Sequence[Judged], agents: Sequence[str]
) -> Crossed | None:
    given = await crossing.weights(judged) if judged else None
    if given is None:
        return None
    weights, measures = given
    return Crossed(
        scored=sum(item.scored for item in judged),
        failed=sum(item.failed for item in judged),
        forms=dict(judged[0].forms),
        dead=sum(map(is_dead, weights)),
        own=shares(measures, names.CREDIT_OWN, agents),
        influence=shares(measures, names.CREDIT_INFLUENCE, agents),
        interaction=measures.get(names.CREDIT_INTERACTION),
    )


def _best(judged: Sequence[Judged]) -> Best | None:
    if not judged:
        return None
    most = max(score.maximum for item in judged for score in item.played)
    every = [[*item.played, *item.further] for item in judged]
    combined = all(item.combinations for item in judged)
    played = [item.played for item in judged]
    return Best(
        samples=max(map(len, played)),
        combinations=max(item.combinations or 0 for item in judged) if combined else None,
        reward=estimate([max(s.reward for s in scores) for scores in played], most),
        reward_combined=estimate([max(s.reward for s in scores) for scores in every], most)
        if combined
        else None,
        solved=any_solved(played),
        solved_combined=any_solved(every) if combined else None,
    )


def _agent(recipe: Recipe, name: str, groups: Groups) -> AgentProbe:
    decisions = {t: [d for e in group for d in e.decisions(name)] for t, group in groups.items()}
    lengths = [_length(d.action) for each in decisions.values() for d in each]
    cut = [[d.action.finish_reason == "length" for d in each] for each in decisions.values()]
    empty = [
        [not t.artefacts[name].strip() for e in group for t in e.turns if name in t.artefacts]
        for group in groups.values()
    ]
    return AgentProbe(
        model=str(getattr(recipe.model_of(name), "name", recipe.model_of(name).engine)),
        untrainable=_untrainable(recipe, name),
        responses=len(lengths),
        tokens=mean(lengths),
        limit=recipe.sampling_of(name).max_new_tokens,
        truncated=estimate([mean(each) for each in cut if each], 1.0),
        empty=estimate([mean(each) for each in empty if each], 1.0),
    )


def _untrainable(recipe: Recipe, name: str) -> str | None:
    if not recipe.team.agents[name].trainable:
        return "trainable is false"
    engine = recipe.model_of(name).engine
    if local_weights(recipe.model_of(name)) is None:
        return f"its engine '{engine}' has no weights here"
    return None


def _length(action: Action) -> int:
    return len(action.token_ids) or action.usage.new_tokens


def _tokens(episode: Episode) -> int:
    return sum(_length(d.action) for turn in episode.turns for d in turn.decisions)
