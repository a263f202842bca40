"""Fine-tuning by likelihood on the team's own successful episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode
from collab.runs import metric_names
from collab.stats import mean
from collab.trainers.credit.base import Algorithm
from collab.trainers.credit.checks import check_no_opponents
from collab.trainers.credit.group import Group, Weights


class Sft(Algorithm):
    """Supervised fine-tuning: A_t^(g) = 1 for every response of a kept episode, 0 for all others.

    The objective is then the log-likelihood of the kept responses, over G. On the team's own
    samples this is iterated rejection sampling (expert iteration: STaR, arXiv 2203.14465; RAFT,
    2304.06767), for each agent separately. The first step on new samples is REINFORCE with a reward
    of 1 for kept episodes. Further `inner_epochs` need no clip. A poor answer that teammates made
    up for also counts as good. The algorithm is meant as a warm start.

    Args:
        above: keep the episodes whose return is more than this share of the largest return; None
            keeps those that solved their task.
    """

    def __init__(self, *, above: Annotated[float, Field(ge=0, lt=1)] | None = None) -> None:
        self._above = above
        self._kept_share = 0.0

    def keeps(self, episode: Episode) -> bool:
        """Return True if the algorithm learns from a complete episode.

        Raises:
            TrainingError: the episode's reward does not say whether the task is solved, and `above`
                is None.
        """
        if self._above is not None:
            largest = _largest_return(episode)
            return largest > 0 and (episode.joint_return or 0.0) > self._above * largest
        if episode.score is None or episode.score.solved is None:
            raise TrainingError(
                f"algorithm 'sft' learns from solved episodes, but the reward of {episode.task}"
                " does not define solved; set its option above, e.g. 0.8, or `solves: true` for a"
                " part of the reward"
            )
        return episode.solved

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        kept = [[float(self.keeps(episode)) for episode in group.episodes] for group in groups]
        self._kept_share = mean([share for shares in kept for share in shares])
        return [
            {(g, t, agent): shares[g] for g, t in group.rewards for agent in group.agents}
            for group, shares in zip(groups, kept, strict=True)
        ]

    def measures(self) -> Mapping[str, float]:
        """Return `sft/kept`: the share of episodes that the algorithm learned from."""
        return {metric_names.SFT_KEPT: self._kept_share}

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Check that the objective is the likelihood of the kept episodes.

        Raises:
            RecipeError: a setting of the trainer, or a zero-sum game, changes the objective.
        """
        check_no_opponents("sft", recipe)
        required = {
            "turn_structure": ("chains", "it keeps or drops whole episodes; set it to 'chains'"),
            "normalize": ("none", "its weights are 1 and 0, not advantages; set it to 'none'"),
            "effective_objective": (
                "reinforce",
                "a likelihood has no ratio to clip; leave out objective, clip_ratio and"
                " clip_ratio_high",
            ),
        }
        for key, (right, why) in required.items():
            if (value := getattr(spec, key)) != right:
                name = key.removeprefix("effective_")
                raise RecipeError(f"algorithm 'sft' with {name} '{value}': {why}")


def _largest_return(episode: Episode) -> float:
    """Return the largest return, without turns that were skipped because the task was solved."""
    ended = episode.unplayed - episode.absorbed
    last = episode.score.maximum if episode.score else 0.0
    return (episode.largest_return or 0.0) - ended * last
