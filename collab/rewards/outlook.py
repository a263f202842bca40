"""The rewards that a team can reach, judged from the team's recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence

from collab.recipe import Recipe
from collab.recipe.roles import Roles
from collab.rewards.library import open_part


def outlook(recipe: Recipe, joined: Sequence[str] | None = None) -> list[str]:
    """Lines for people: who writes the answer, what it earns at most, which parts do not apply.

    `joined` are agents whose answers the team's protocol may choose; None: it does not choose.
    """
    roles, agents = recipe.team.roles, [*recipe.team.agents]
    others = [agent for agent in agents if agent not in roles.contributors]
    lines = []
    if joined is not None:
        roles = roles.among(joined)
        lines.append("answer: the protocol chooses whose counts")
    elif others:
        lines.append(f"answer: written by {_and(roles.contributors)}, not by {_and(others)}")
    if recipe.task is None or recipe.task.reward is None:
        return lines
    parts, without = recipe.task.reward.parts, _do_not_apply(recipe, roles)
    most = math.fsum(p.weight for name, p in parts.items() if name not in without and p.weight > 0)
    lines.append(f"reward: at most {most:g} a turn")
    for why in dict.fromkeys(without.values()):
        names = [name for name, reason in without.items() if reason == why]
        lines.append(f"  {_and(names)} {'does' if len(names) == 1 else 'do'} not apply: {why}")
    return lines


def _do_not_apply(recipe: Recipe, roles: Roles) -> dict[str, str]:
    """Map each part that does not apply to the team to the reason."""
    without: dict[str, str] = {}
    reward = recipe.task.reward if recipe.task else None
    for name, spec in reward.parts.items() if reward else ():
        why = open_part(name, spec).lacks(roles, recipe.team.agents)
        if not why and spec.requires in without:
            why = f"requires '{spec.requires}', which does not apply"
        if why:
            without[name] = why
    return without


def _and(names: tuple[str, ...] | list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
