"""Finds the best joint artifact among combinations of independent answers.

G samples of n agents that saw nothing of each other give G^n joint artifacts for the price of G.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import product

from collab.agents import join_for, make_joint
from collab.errors import CollabError, RecipeError
from collab.models.fakes import EchoModel
from collab.recipe import Recipe
from collab.records import Episode, Failure, Problem, Score, failure_of
from collab.runtime.events import BestOf
from collab.runtime.independence import are_independent
from collab.runtime.rehearsal import rehearsed
from collab.runtime.session import Session

MOST_COMBINATIONS = 4096
"""Most joint artifacts per problem that are scored."""


def check_best_of(recipe: Recipe, samples: int) -> None:
    """Check that the answers of `samples` episodes can be recombined.

    Raises:
        RecipeError: the answers cannot be recombined. The message gives the remedy.
    """
    turn = rehearsed(recipe)
    remedy = "; leave --best-of out, or give the samples with --samples"
    if recipe.task is None:
        raise RecipeError(
            f"--best-of needs a suite, because its reward decides which answer is best{remedy}"
        )
    if recipe.team.turns > 1:
        raise RecipeError(
            f"--best-of combines answers to the same prompt, but the team has {recipe.team.turns}"
            " turns with different prompts; set team.turns=1"
        )
    if not are_independent(turn):
        raise RecipeError(
            f"--best-of combines independent answers, but in '{recipe.team.protocol}' agents see"
            f" each other's answers, or the protocol chooses one{remedy}"
        )
    combinations = samples ** len(turn.joined)
    if combinations > MOST_COMBINATIONS:
        raise RecipeError(
            f"--best-of {samples} makes {samples}^{len(turn.joined)} = {combinations} joint"
            f" artifacts of each problem, more than {MOST_COMBINATIONS}; use fewer"
        )


async def best_of(
    recipe: Recipe, problems: Sequence[Problem], episodes: Sequence[Episode]
) -> list[BestOf]:
    """Return the best combination of each problem's answers, without calling a model.

    Problems without a complete episode are omitted. Among equal combinations, one that was played
    wins, otherwise the first.
    """
    silent = dict.fromkeys(recipe.team.agents, EchoModel())
    by_task: dict[str, list[Episode]] = {problem.address: [] for problem in problems}
    for episode in sorted(episodes, key=lambda episode: episode.sample):
        if episode.score is not None:
            by_task[episode.task].append(episode)
    session = await Session(recipe, models=silent).open()
    try:
        return [
            await _best(recipe, session, problem, by_task[problem.address])
            for problem in problems
            if by_task[problem.address]
        ]
    finally:
        await session.aclose()


async def _best(
    recipe: Recipe, session: Session, problem: Problem, episodes: Sequence[Episode]
) -> BestOf:
    answers = [_joined(episode) for episode in episodes]
    agents = list(answers[0])
    known = {tuple(made.values()): e.score for made, e in zip(answers, episodes, strict=True)}
    choices = list(product(range(len(episodes)), repeat=len(agents)))
    texts = [tuple(answers[n][a] for n, a in zip(c, agents, strict=True)) for c in choices]
    new = [text for text in dict.fromkeys(texts) if text not in known]
    outcomes = await asyncio.gather(
        *(_score(session, problem, dict(zip(agents, text, strict=True))) for text in new)
    )
    failures = tuple(each for each in outcomes if isinstance(each, Failure))
    known |= {t: s for t, s in zip(new, outcomes, strict=True) if isinstance(s, Score)}
    scored = [(c, t, s) for c, t in zip(choices, texts, strict=True) if (s := known.get(t))]
    chosen, text, score = max(scored, key=lambda each: (each[2].reward, len(set(each[0])) == 1))
    artifacts = dict(zip(agents, text, strict=True))
    return BestOf(
        task=problem.address,
        made_of={a: episodes[n].sample for n, a in zip(chosen, agents, strict=True)},
        played=len(set(chosen)) == 1,
        artifacts=artifacts,
        joint=make_joint(join_for(recipe.team.join, recipe.team.roles), artifacts, problem).text,
        score=score,
        samples=len(episodes),
        scored=len(scored),
        best_played=max(e.reward for e in episodes if e.reward is not None),
        failures=failures,
    )


async def _score(
    session: Session, problem: Problem, artifacts: Mapping[str, str]
) -> Score | Failure:
    try:
        return await session.score(problem, artifacts)
    except CollabError as error:
        return failure_of(error)


def _joined(episode: Episode) -> dict[str, str]:
    turn = episode.turns[0]
    names = turn.artifacts if turn.joined is None else turn.joined
    return {name: turn.artifacts[name] for name in names}
