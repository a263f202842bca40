"""Finds the best joint artifact among combinations of independent answers.

G samples of n agents that saw nothing of each other give G^n joint artifacts for the price of G.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from collab.errors import RecipeError
from collab.probe.probe import groups_of
from collab.probe.results import BestOf
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode, Problem
from collab.rewards.declared import parts_about_others
from collab.runtime.independence import are_independent
from collab.runtime.rehearsal import rehearse_team
from collab.runtime.scoring import JointScorer
from collab.sandbox import Sandbox
from collab.trainers.credit.combinations import Combinations
from collab.trainers.credit.counterfactual.base import MAX_COMBINATIONS


def check_best_of(recipe: Recipe, samples: int) -> None:
    """Check that the answers of `samples` episodes can be combined.

    Raises:
        RecipeError: the answers cannot be combined. The message gives the remedy.
    """
    turn = rehearse_team(recipe)
    remedy = "; leave --best-of out, or give the samples with --samples"
    recipe.check_scored()
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
    if len(turn.joined) > 1 and (parts := parts_about_others(recipe)):
        raise RecipeError(
            f"--best-of combines the answers that are joined, but the reward's {', '.join(parts)}"
            f" reads another agent's{remedy}"
        )
    combinations = samples ** len(turn.joined)
    if combinations > MAX_COMBINATIONS:
        raise RecipeError(
            f"--best-of {samples} makes {samples}^{len(turn.joined)} = {combinations} joint"
            f" artifacts of each problem, more than {MAX_COMBINATIONS}; use fewer"
        )


async def best_of(
    recipe: Recipe, problems: Sequence[Problem], episodes: Sequence[Episode]
) -> list[BestOf]:
    """Return the best combination of each problem's answers, without calling a model.

    Problems without a complete episode are omitted. Among equal combinations, one that was played
    wins, otherwise the first.
    """
    groups = groups_of(problems, episodes)
    async with Sandbox(recipe.sandbox) as sandbox:
        scorer = JointScorer(recipe, sandbox)
        return [
            await _best_combination(scorer, problem, groups[problem.address])
            for problem in problems
            if problem.address in groups
        ]


async def _best_combination(
    scorer: JointScorer, problem: Problem, episodes: Sequence[Episode]
) -> BestOf:
    combinations = Combinations(problem, episodes, TrainerSpec(), scorer.score)
    nodes = [(number, 0) for number in range(len(episodes))]
    agents = combinations.team(nodes)
    chosen = [
        dict(zip(agents, numbers, strict=True))
        for numbers in product(range(len(episodes)), repeat=len(agents))
    ]
    scores = zip(chosen, await combinations.scores(nodes, chosen), strict=True)
    scored = [(choice, score) for choice, score in scores if score is not None]
    best, score = max(scored, key=lambda each: (each[1].reward, len({*each[0].values()}) == 1))
    artifacts = {a: episodes[n].turns[0].contributions[a] for a, n in best.items()}
    return BestOf(
        task=problem.address,
        made_of={agent: episodes[number].sample for agent, number in best.items()},
        played=len({*best.values()}) == 1,
        artifacts=artifacts,
        joint=scorer.join(artifacts, problem).text,
        score=score,
        samples=len(episodes),
        scored=len(scored),
        best_played=max(e.reward for e in episodes if e.reward is not None),
        failures=tuple(combinations.failures),
    )
