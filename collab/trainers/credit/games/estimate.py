"""Estimates of an algorithm's bias and variance, against a game's exact gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collab.trainers.credit.base import Algorithm
from collab.trainers.credit.games.game import Game, GameTable, TableKey, Vector, outcomes, sample
from collab.trainers.credit.group import Group, Weights
from collab.trainers.credit.shape import Shape


def value(game: Game) -> float:
    """Return J, the expected joint return of the game under its policies."""
    return float(_state_values(game, None)[0][0])


def gradient(game: Game) -> dict[str, Vector]:
    """Return the gradient of each agent's earnings by its logits, as in `Game.offsets`."""
    gradients = game.zeros()
    values_of = {agent: _state_values(game, agent) for agent in game.agents}
    visits = np.zeros(_n_states(game))
    visits[0] = 1.0
    for turn in range(game.turns):
        next_visits = np.zeros_like(visits)
        for state in _states(game, turn):
            reached = visits[state] * game.chances(turn, state)
            for agent in game.agents:
                returns = _expected_returns(game, turn, agent, values_of[agent][turn + 1])
                start = game.offsets[agent, turn, state]
                part = _gradient_part(game, (agent, turn, state), reached * returns)
                gradients[agent][start : start + part.size] += part.ravel()
            _add_next_states(game, reached, next_visits)
        visits = next_visits
    return gradients


def _gradient_part(game: Game, key: TableKey, mass: GameTable) -> GameTable:
    """Return one table's part of the gradient. `mass` is probability times return."""
    axes = game.axes(key[0])
    agent_mass = mass.sum(axis=tuple(n for n in range(mass.ndim) if n not in axes))
    part: GameTable = agent_mass - game.policies[key] * agent_mass.sum(axis=-1, keepdims=True)
    return part


def _state_values(game: Game, agent: str | None) -> list[GameTable]:
    """Return the expected return of an agent (None: the team) from every turn and state on."""
    values = [np.zeros(_n_states(game))]
    for turn in reversed(range(game.turns)):
        returns = _expected_returns(game, turn, agent, values[0])
        chances = [game.chances(turn, state) for state in _states(game, turn)]
        row = np.zeros(_n_states(game))
        row[: len(chances)] = [float((chance * returns).sum()) for chance in chances]
        values.insert(0, row)
    return values


def _expected_returns(game: Game, turn: int, agent: str | None, following: GameTable) -> GameTable:
    """Return the expected return of every joint action, given the values of the states after it."""
    reward = game.rewards[turn] if agent is None else game.earned(turn, agent)
    later = np.full(reward.shape, following[0])
    if game.states is not None:
        later = following[game.states]
    if game.solved is not None:
        left = sum(game.discount**k for k in range(game.turns - 1 - turn))
        later = np.where(game.solved, left * reward, later)
    returns: GameTable = reward + game.discount * later
    return returns


def _add_next_states(game: Game, reached: GameTable, after: GameTable) -> None:
    """Add the probability of every state after a turn that did not solve the task."""
    going = reached if game.solved is None else np.where(game.solved, 0.0, reached)
    if game.states is None:
        after[0] += going.sum()
    else:
        np.add.at(after, game.states, going)


def _states(game: Game, turn: int) -> range:
    return range(max(state for _, at, state in game.logits if at == turn) + 1)


def _n_states(game: Game) -> int:
    last_state = 0 if game.states is None else int(game.states.max())
    return max(last_state, *(state for _, _, state in game.logits)) + 1


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
        for agent, part in gradient_of(game, group, weights).items():
            total[agent] += chance * part
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
