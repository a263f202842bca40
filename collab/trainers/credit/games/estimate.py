"""Estimates of an algorithm's bias and variance, against a game's exact gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum

import numpy as np

from collab.trainers.credit.base import Algorithm
from collab.trainers.credit.games.game import Game, Vector, outcomes, sample
from collab.trainers.credit.group import Group, Weights
from collab.trainers.credit.shape import Shape


def value(game: Game) -> float:
    """Return J, the expected joint return of the game under its policies."""
    shared = replace(game, extra={})
    return fsum(chance * play.returns[0, 0][game.agents[0]] for chance, play in outcomes(shared, 1))


def gradient(game: Game) -> dict[str, Vector]:
    """Return the gradient of each agent's earnings by its logits, as in `Game.offsets`.

    It is the mean gradient of REINFORCE without a baseline over all single episodes. As in
    training, turn t is not weighted by gamma^t.
    """
    total = game.zeros()
    for chance, play in outcomes(game, 1):
        weights = {(*n, a): r for n, earned in play.returns.items() for a, r in earned.items()}
        _add(total, chance, gradient_of(game, play, weights))
    return total


def _add(total: dict[str, Vector], chance: float, gradients: dict[str, Vector]) -> None:
    for agent, part in gradients.items():
        total[agent] += chance * part


NEGLIGIBLE_GRADIENT = 1e-12
"""Largest component of a gradient that counts as zero."""


@dataclass(frozen=True)
class Estimate:
    """Gradient estimates from many groups, by agent, with the true gradient."""

    groups: int
    gradient: dict[str, Vector]
    """True gradient: the agent's tables of logits concatenated."""
    mean: dict[str, Vector]
    variance: dict[str, float]
    """Variance of one group's estimate, summed over the logits."""
    cosine: dict[str, float]
    """Mean cosine between a group's estimate and the true gradient; 0 without a gradient."""
    dead: dict[str, float]
    """Share of groups that gave the agent no gradient at all."""

    def bias(self, agent: str) -> float:
        """Return the norm of the mean's error, relative to that of the true gradient."""
        return self._error_norm(agent) / float(np.linalg.norm(self.gradient[agent]))

    def errors(self, agent: str) -> float:
        """Return the norm of the mean's error, in standard errors. Above 3, it is significant."""
        distance = self._error_norm(agent)
        error = (self.variance[agent] / self.groups) ** 0.5
        if distance < NEGLIGIBLE_GRADIENT:
            return 0.0
        return distance / error if error else float("inf")

    def _error_norm(self, agent: str) -> float:
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
    """Run an algorithm on `groups` random groups, and return the gradients that it gives.

    `groups` must be a multiple of `groups_per_step`.
    """
    rng, true = np.random.default_rng(seed), gradient(game)
    sums, squares = game.zeros(), game.zeros()
    cosines, dead = dict.fromkeys(game.agents, 0.0), dict.fromkeys(game.agents, 0)
    for _ in range(groups // groups_per_step):
        played = [sample(game, group_size, rng, shape=shape) for _ in range(groups_per_step)]
        weights = await algorithm.credit(played)
        for group, group_weights in zip(played, weights, strict=True):
            for agent, part in gradient_of(game, group, group_weights).items():
                sums[agent] += part
                squares[agent] += part**2
                length = float(np.linalg.norm(part)) * float(np.linalg.norm(true[agent]))
                cosines[agent] += float(part @ true[agent]) / length if length else 0.0
                dead[agent] += bool(np.abs(part).max() < NEGLIGIBLE_GRADIENT)
    means = {agent: total / groups for agent, total in sums.items()}
    variances = {a: np.maximum(squares[a] / groups - means[a] ** 2, 0.0) for a in game.agents}
    return Estimate(
        groups=groups,
        gradient=true,
        mean=means,
        variance={a: float(value.sum()) for a, value in variances.items()},
        cosine={a: value / groups for a, value in cosines.items()},
        dead={a: count / groups for a, count in dead.items()},
    )


async def expectation(
    game: Game, algorithm: Algorithm, group_size: int, *, shape: Shape | None = None
) -> dict[str, Vector]:
    """Return the algorithm's mean gradient over all possible groups, without sampling.

    For small games: two agents with 3 and 2 actions have 36 groups of two, and 216 of three. The
    algorithm gets one group at a time, and must not keep state.
    """
    total = game.zeros()
    for chance, group in outcomes(game, group_size, shape=shape):
        [weights] = await algorithm.credit([group])
        _add(total, chance, gradient_of(game, group, weights))
    return total


def gradient_of(game: Game, group: Group, weights: Weights) -> dict[str, Vector]:
    """Return the gradient of a group's objective with respect to each agent's logits, as in
    training.

    The objective is the sum of visit share x weight x log pi over the group's responses.
    """
    gradients = game.zeros()
    for (episode, turn, agent), weight in weights.items():
        number = weight[0] if isinstance(weight, Sequence) else weight
        scale = group.visit_share[episode, turn] * number
        place = game.agents.index(agent)
        action = group.episodes[episode].turns[turn].decisions[place].action
        index, state, *seen = action.prompt_ids
        table = game.policies[agent, index, state]
        chances = table[tuple(seen)]
        row = int(np.ravel_multi_index(seen, table.shape[:-1])) if seen else 0
        start = game.offsets[agent, index, state] + row * len(chances)
        # The score of a softmax: one-hot of the drawn action - probabilities.
        gradients[agent][start : start + len(chances)] -= scale * chances
        gradients[agent][start + action.token_ids[0]] += scale
    return gradients
