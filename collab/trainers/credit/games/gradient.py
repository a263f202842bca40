"""The value of a game and its gradient, by going through all states and joint actions."""

from __future__ import annotations

import numpy as np

from collab.trainers.credit.games.game import Game, Table, Vector, Where


def value(game: Game) -> float:
    """J, the expected joint return."""
    return float(_values(game, None)[0][0])


def gradient(game: Game) -> dict[str, Vector]:
    """By agent: the gradient of what it earns with respect to its logits.

    An agent's tables of logits are laid end to end, as `Game.offsets` says. With a discount below
    1 a later turn's part is not discounted once more, as it is not in training.
    """
    found = game.zeros()
    values_of = {agent: _values(game, agent) for agent in game.agents}
    visits = np.zeros(_n_states(game))
    visits[0] = 1.0
    for turn in range(game.turns):
        after = np.zeros_like(visits)
        for state in _states(game, turn):
            reached = visits[state] * game.chances(turn, state)
            for agent in game.agents:
                worth = _returns(game, turn, agent, values_of[agent][turn + 1])
                start = game.offsets[agent, turn, state]
                part = _part(game, (agent, turn, state), reached * worth)
                found[agent][start : start + part.size] += part.ravel()
            _go_on(game, reached, after)
        visits = after
    return found


def _part(game: Game, where: Where, mass: Table) -> Table:
    """One table's part of the gradient, given chance times return of every joint action."""
    axes = game.axes(where[0])
    own = mass.sum(axis=tuple(n for n in range(mass.ndim) if n not in axes))
    part: Table = own - game.policies[where] * own.sum(axis=-1, keepdims=True)
    return part


def _values(game: Game, agent: str | None) -> list[Table]:
    """The expected return of an agent from every turn and state on; of None, the joint one."""
    found = [np.zeros(_n_states(game))]
    for turn in reversed(range(game.turns)):
        worth = _returns(game, turn, agent, found[0])
        chances = [game.chances(turn, state) for state in _states(game, turn)]
        row = np.zeros(_n_states(game))
        row[: len(chances)] = [float((chance * worth).sum()) for chance in chances]
        found.insert(0, row)
    return found


def _returns(game: Game, turn: int, agent: str | None, following: Table) -> Table:
    """The expected return of every joint action, given what the states after it are worth."""
    reward = game.rewards[turn] if agent is None else game.earned(turn, agent)
    later = np.full(reward.shape, following[0])
    if game.states is not None:
        later = following[game.states]
    if game.solved is not None:
        left = sum(game.discount**k for k in range(game.turns - 1 - turn))
        later = np.where(game.solved, left * reward, later)
    worth: Table = reward + game.discount * later
    return worth


def _go_on(game: Game, reached: Table, after: Table) -> None:
    """Add the chance of every state after a turn that did not solve the task."""
    going = reached if game.solved is None else np.where(game.solved, 0.0, reached)
    if game.states is None:
        after[0] += going.sum()
    else:
        np.add.at(after, game.states, going)


def _states(game: Game, turn: int) -> range:
    return range(max(state for _, at, state in game.logits if at == turn) + 1)


def _n_states(game: Game) -> int:
    led_to = 0 if game.states is None else int(game.states.max())
    return max(led_to, *(state for _, _, state in game.logits)) + 1
