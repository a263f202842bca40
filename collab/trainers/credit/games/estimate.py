"""What a rule of credit makes of a game: its gradient estimate's bias and variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collab.records import Turn
from collab.trainers.credit.base import Algorithm
from collab.trainers.credit.games.game import Game, Vector
from collab.trainers.credit.games.gradient import gradient
from collab.trainers.credit.games.play import drawing, outcomes, play
from collab.trainers.credit.games.records import Records
from collab.trainers.credit.group import Group, Weights
from collab.trainers.credit.shape import Shape

NOTHING = 1e-12
"""A gradient up to this, in every part, is none."""


@dataclass(frozen=True)
class Estimate:
    """Of many groups' gradient estimates, by agent, beside the true gradient."""

    groups: int
    gradient: dict[str, Vector]
    """The true one: the agent's tables of logits end to end."""
    mean: dict[str, Vector]
    standard_error: dict[str, Vector]
    """Of `mean`."""
    variance: dict[str, float]
    """Of one group's estimate, summed over the logits."""
    cosine: dict[str, float]
    """The mean cosine of a group's estimate and the true gradient; 0 for a group without any."""
    dead: dict[str, float]
    """The share of groups that gave the agent no gradient at all."""

    def bias(self, agent: str) -> float:
        """The length of the mean's difference from the gradient, in lengths of the gradient."""
        return self._distance(agent) / float(np.linalg.norm(self.gradient[agent]))

    def errors(self, agent: str) -> float:
        """The length of that difference in its own standard errors; beyond 3 it is no chance."""
        distance = self._distance(agent)
        error = (self.variance[agent] / self.groups) ** 0.5
        return 0.0 if distance < NOTHING else float("inf") if error == 0 else distance / error

    def _distance(self, agent: str) -> float:
        return float(np.linalg.norm(self.mean[agent] - self.gradient[agent]))


async def estimate(
    game: Game,
    algorithm: Algorithm,
    *,
    groups: int,
    group_size: int,
    shape: Shape | None = None,
    groups_per_step: int = 1,
    seed: int = 0,
) -> Estimate:
    """Give the rule so many random groups; `groups` is a multiple of `groups_per_step`."""
    rng, records, true = np.random.default_rng(seed), Records(game), gradient(game)
    sums, squares = game.zeros(), game.zeros()
    cosines, dead = dict.fromkeys(game.agents, 0.0), dict.fromkeys(game.agents, 0)
    for _ in range(groups // groups_per_step):
        played = [
            play(game, group_size, drawing(rng), shape=shape, records=records)
            for _ in range(groups_per_step)
        ]
        weights = await algorithm.credit(played)
        for group, given in zip(played, weights, strict=True):
            for agent, found in gradient_of(game, group, given).items():
                sums[agent] += found
                squares[agent] += found**2
                length = float(np.linalg.norm(found)) * float(np.linalg.norm(true[agent]))
                cosines[agent] += float(found @ true[agent]) / length if length else 0.0
                dead[agent] += bool(np.abs(found).max() < NOTHING)
    means = {agent: total / groups for agent, total in sums.items()}
    variances = {a: np.maximum(squares[a] / groups - means[a] ** 2, 0.0) for a in game.agents}
    return Estimate(
        groups=groups,
        gradient=true,
        mean=means,
        standard_error={a: np.sqrt(value / groups) for a, value in variances.items()},
        variance={a: float(value.sum()) for a, value in variances.items()},
        cosine={a: value / groups for a, value in cosines.items()},
        dead={a: count / groups for a, count in dead.items()},
    )


async def expectation(
    game: Game, algorithm: Algorithm, group_size: int, *, shape: Shape | None = None
) -> dict[str, Vector]:
    """The rule's mean gradient over all groups that may be played, without any sampling.

    For small games: two agents with 3 and 2 actions have 36 groups of two, and 216 of three. The
    algorithm is asked of one group at a time, and must not keep state.
    """
    found = game.zeros()
    for chance, group in outcomes(game, group_size, shape=shape):
        [weights] = await algorithm.credit([group])
        for agent, part in gradient_of(game, group, weights).items():
            found[agent] += chance * part
    return found


def gradient_of(game: Game, group: Group, weights: Weights) -> dict[str, Vector]:
    """By agent: the gradient of sum over responses of share x weight x log pi, as in training."""
    found = game.zeros()
    for (episode, turn, agent), weight in weights.items():
        number = weight[0] if isinstance(weight, Sequence) else weight
        scale = group.visit_share[episode, turn] * number
        _add_score(game, found[agent], group.episodes[episode].turns[turn], agent, scale)
    return found


def _add_score(game: Game, vector: Vector, turn: Turn, agent: str, scale: float) -> None:
    """Add scale x (one-hot of what was drawn - chances) where the agent's table stands."""
    action = turn.decisions[game.agents.index(agent)].action
    index, state, *seen = action.prompt_ids
    table = game.policies[agent, index, state]
    chances = table[tuple(seen)]
    row = int(np.ravel_multi_index(seen, table.shape[:-1])) if seen else 0
    start = game.offsets[agent, index, state] + row * len(chances)
    vector[start : start + len(chances)] -= scale * chances
    vector[start + action.token_ids[0]] += scale
