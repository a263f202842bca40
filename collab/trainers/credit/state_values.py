"""What the states of an episode are worth, by playing on from each of them several times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from collab.stats import mean
from collab.trainers.credit.group import Group, Node

Worth = Mapping[str, float]
"""By agent: the return from a state on."""


def valued(group: Group) -> Group:
    """The group, each turn paid for what it made of the state: r_t + gamma V(h_t+1) - V(h_t).

    V(h) is the mean return of the continuations from h, which are drawn as the team plays and do
    not depend on how the episode itself went on; V of the first state is 0, and that of an ended
    episode what absorbing earns. E[V(h_t+1)] is the value of h_t+1, so that the turn's own reward
    with it has the mean of R_t, and V(h_t) is a baseline: the gradient stays as it is. Where all
    continuations from a state were lost, the episode's own return takes the place of V(h_t+1),
    and the mean over the other episodes that of V(h_t).
    """
    worth = _values(group)
    parents = {child: node for node, found in group.children.items() for child in found}
    paid = {}
    for node, earned in group.rewards.items():
        after, before = _after(group, node, worth), _before(parents.get(node), worth)
        paid[node] = {a: earned[a] + after[a] - before.get(a, 0.0) for a in earned}
    absorbed = {
        turn: tuple(dict.fromkeys(earned, 0.0) for earned in found)
        for turn, found in group.absorbed.items()
    }
    return replace(group, rewards=paid, returns=paid, absorbed=absorbed)


def _values(group: Group) -> dict[Node, Worth]:
    """By the joint action that a state comes after."""
    found: dict[Node, list[Worth]] = {}
    for further in group.further:
        returns = {agent: further.earned(agent, group.discount) for agent in group.agents}
        found.setdefault(further.of, []).append(returns)
    return {node: _mean(values) for node, values in found.items()}


def _after(group: Group, node: Node, worth: Mapping[Node, Worth]) -> Worth:
    """gamma V of the state that a joint action leads to."""
    if node in worth:
        return {agent: group.discount * value for agent, value in worth[node].items()}
    return {a: value - group.rewards[node][a] for a, value in group.returns[node].items()}


def _before(parent: Node | None, worth: Mapping[Node, Worth]) -> Worth:
    """V of the state that a joint action was taken in."""
    if parent is None:
        return {}
    if parent in worth:
        return worth[parent]
    others = [value for node, value in worth.items() if node[1] == parent[1]]
    return _mean(others) if others else {}


def _mean(values: list[Worth]) -> Worth:
    return {agent: mean([value[agent] for value in values]) for agent in values[0]}
