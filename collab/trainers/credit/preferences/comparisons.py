"""Which pairs an agent learns from: its own responses where that is right, else the team's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collab.trainers.credit.counterfactual.cross import FEW
from collab.trainers.credit.counterfactual.forms import forms
from collab.trainers.credit.counterfactual.table import Shifts, make_table
from collab.trainers.credit.group import Group, Node
from collab.trainers.credit.joint_actions import joined
from collab.trainers.credit.preferences.pairs import Pair, best_pairs


@dataclass(frozen=True)
class Comparison:
    """A pair that an agent learns from."""

    number: int
    """Of the group, in its step."""
    agent: str
    pair: Pair
    parties: tuple[str, ...]
    """The agents whose responses make the margin: all, or the agent alone."""
    share: float
    """One part of as many as the agent learns from in this group."""


async def comparisons(
    number: int, group: Group, agent: str, *, most: int, shifts: Shifts | None
) -> list[Comparison]:
    """The pairs that an agent learns from in a group.

    Where its answer depends on no teammate's and no teammate's on it, its own responses are
    compared, by their mean reward over the teammates' samples. Elsewhere joint actions are
    compared, by the rewards that they earned.

    Args:
        number: the group's, in its step.
        most: pairs that are taken at each set of joint actions that are compared, those with the
            largest gaps of reward.
        shifts: with which teammates' samples a response is scored, as in `cross`.
    """
    found: list[tuple[Pair, tuple[str, ...]]] = []
    for nodes in group.baselines_over:
        crossed = forms(group, nodes)[agent] == "crossed"
        values: Sequence[float] = [group.rewards[node][agent] for node in nodes]
        if crossed:
            values = await _crossed(group, nodes, agent, shifts)
        parties = (agent,) if crossed else group.agents
        found += [(pair, parties) for pair in best_pairs(nodes, values, most)]
    return [Comparison(number, agent, pair, names, 1 / len(found)) for pair, names in found]


def shifts_for(n_agents: int, given: Shifts | None) -> Shifts:
    """The shifts that are used: those that were given, else all samples for two agents and 3 for
    more."""
    return given or ("samples" if n_agents <= 2 else FEW)


async def _crossed(
    group: Group, nodes: Sequence[Node], agent: str, shifts: Shifts | None
) -> list[float]:
    episode, turn = nodes[0]
    team = list(joined(group.episodes[episode].turns[turn]))
    table = await make_table(group, nodes, team, agent, shifts_for(len(team), shifts))
    values: list[float] = table.crossed().tolist()
    return values
