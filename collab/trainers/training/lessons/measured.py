"""How good a team is at some tasks, as one share."""

from __future__ import annotations

from collections.abc import Sequence

from collab.errors import TrainingError
from collab.recipe.training.curriculum import MeasuredBy
from collab.records import Episode
from collab.stats import mean
from collab.trainers.training.rollouts import played_out


def measured(episodes: Sequence[Episode], by: MeasuredBy, key: str) -> float | None:
    """The share of the episodes that are solved, or their mean return of the largest one.

    Episodes that failed count for nothing; None where no other is left. `key` is that of the
    setting which asks, for messages.

    Raises:
        TrainingError: the share of solved ones is asked for, and no reward says what is solved.
    """
    whole = played_out(episodes)
    if not whole:
        return None
    if by == "return":
        return mean([(e.joint_return or 0.0) / (e.largest_return or 1.0) for e in whole])
    if any(e.score is None or e.score.solved is None for e in whole):
        raise TrainingError(
            f"{key}.by is 'solved', and the reward of {whole[0].task} does not say what is solved;"
            f" set {key}.by to 'return', or solves: true on a part of the reward"
        )
    return mean([float(e.solved) for e in whole])
