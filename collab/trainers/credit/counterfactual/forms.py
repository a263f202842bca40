"""The forms in which combinations can give unbiased credit.

A response may only get credit for a reward that the team's policies could have earned with it, and
its baseline must not depend on the response. The form depends on which agents saw which answers of
the turn:

crossed   The agent's answer and its teammates' depend on no common answer of this turn, of any
          agent; all compared responses have the same history. Any of the teammates' samples could
          then have been drawn with the response, and its credit is its mean reward over all.
swapped   No teammate's answer in this turn depends on the agent's. The agent's other responses can
          then replace it to give a baseline for the reward that was played.
alone     In all other cases, and if the answer is not part of the joint artifact: leave-one-out of
          the rewards that were played.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from collab.recipe import Recipe
from collab.records import Turn
from collab.runtime.independence import Dependence, planned_dependence, recorded_dependence
from collab.runtime.rehearsal import rehearse_team
from collab.trainers.credit.group import Group, Node

CreditForm = Literal["crossed", "swapped", "alone"]

FORMS: dict[CreditForm, str] = {
    "crossed": "its responses are scored with all of its teammates' samples",
    "swapped": "its baseline is the reward of its other responses in the same place",
    "alone": "leave-one-out over the rewards that were played",
}
"""Descriptions of the forms."""


def forms(group: Group, nodes: Sequence[Node]) -> dict[str, CreditForm]:
    """Return the form of each agent at joint actions that are compared with each other.

    The result has the trained agents, and frozen ones that contribute to the joint artifact.
    """
    turns = [group.turn(node) for node in nodes]
    team = list(turns[0].contributions)
    agents = dict.fromkeys((*group.agents, *team))
    if len(nodes) == 1 or len(team) == 1 or any(list(turn.contributions) != team for turn in turns):
        return dict.fromkeys(agents, "alone")
    dependences = [recorded_dependence(turn) for turn in _distinct_turns(turns)]
    shared = _have_same_history(group, nodes)
    return {agent: form_of(agent, team, dependences, shared=shared) for agent in agents}


def planned_forms(recipe: Recipe, *, shared: bool) -> dict[str, CreditForm]:
    """Return the form of each trained agent, by a rehearsal of its protocol.

    `shared` is True if all compared responses have one history, as in the first turn.
    """
    turn = rehearse_team(recipe)
    trained = recipe.team.trained
    if turn.is_chosen or len(turn.joined) == 1:
        return dict.fromkeys(trained, "alone")
    dependences = [planned_dependence(turn)]
    return {agent: form_of(agent, turn.joined, dependences, shared=shared) for agent in trained}


def form_of(
    agent: str, team: Sequence[str], dependences: Sequence[Dependence], *, shared: bool
) -> CreditForm:
    """Return the form of an agent, given the agents whose answers make the joint artifact."""
    if agent not in team or any(d.descendants(agent).intersection(team) for d in dependences):
        return "alone"
    is_independent = all(d.is_alone(agent, team) for d in dependences)
    return "crossed" if shared and is_independent else "swapped"


def _distinct_turns(turns: Sequence[Turn]) -> list[Turn]:
    """Return one turn for each way in which the agents saw each other."""
    ways = {tuple((d.agent, d.round, d.saw) for d in turn.decisions): turn for turn in turns}
    return list(ways.values())


def _have_same_history(group: Group, nodes: Sequence[Node]) -> bool:
    """Return True if the joint actions have the same history."""
    (first, turn), *rest = nodes
    before = group.episodes[first].turns[:turn]
    return all(
        _leave_same_history(one, other)
        for episode, _ in rest
        for one, other in zip(before, group.episodes[episode].turns[:turn], strict=True)
    )


def _leave_same_history(turn: Turn, other: Turn) -> bool:
    """Return True if two turns leave every agent with the same history."""
    if turn is other:
        return True
    histories = [
        [(d.agent, d.observation, d.action.text) for d in t.decisions] for t in (turn, other)
    ]
    return histories[0] == histories[1] and turn.feedback == other.feedback
