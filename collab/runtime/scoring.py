"""Scores joint actions without a model: joins the artifacts, and applies the reward."""

from __future__ import annotations

from collections.abc import Mapping

from collab.agents import join_for
from collab.recipe import Recipe
from collab.records import Problem, Score
from collab.rewards import Scorer
from collab.runtime.game import game_maker, score_combination
from collab.sandbox import Sandbox


class JointScorer:
    """Scores the joint actions of a recipe's team.

    Raises:
        RecipeError: on construction: the join, the reward or the environment cannot be opened.
    """

    def __init__(self, recipe: Recipe, sandbox: Sandbox) -> None:
        """Make a scorer whose tests run in `sandbox`, which stays open."""
        team, reward = recipe.team, recipe.reward
        self._recipe = recipe
        self.join = join_for(team.join, team.roles)
        self.scorer = Scorer(reward, sandbox, team.roles, team.agents) if reward else None
        self.make_game = game_maker(recipe)

    async def score(self, problem: Problem, artifacts: Mapping[str, str]) -> Score:
        """Return the joint reward of a joint action, described by the artifact of each agent.

        Raises:
            RecipeError: the recipe has no reward, or it is an environment of several turns.
            AgentError: the join failed.
            RewardError, SandboxError: see `Scorer.score`.
        """
        if self.make_game is not None:
            game = self.make_game(problem)
            return await score_combination(game, artifacts, self._recipe.team.turns)
        self._recipe.check_scored()
        assert self.scorer is not None, "the recipe has a reward"
        agents = self._recipe.team.roles.limited_to(artifacts).contributors
        joint = self.join({name: artifacts[name] for name in agents}, problem)
        return await self.scorer.score(problem, joint, artifacts, agents)
