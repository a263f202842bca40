"""Which fields of a problem a team's templates use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import Environment, TemplateSyntaxError, nodes

from collab.recipe import Recipe
from collab.recipe.team import PROMPT, AgentSpec

CONVERSATION = "conversation"
"""The field for what was said before the user's last text: a list of messages."""


@dataclass(frozen=True)
class Fields:
    """The fields of a problem that is asked over the wire."""

    text: str
    """The one that the user's text fills."""
    needed: tuple[str, ...]
    """Those without which a template fails."""
    known: tuple[str, ...]
    """All that a template names."""


def fields_of(recipe: Recipe, chosen: str | None = None) -> Fields:
    """What the templates of a recipe's team read of a problem."""
    known: dict[str, bool] = {}
    for agent in recipe.team.agents.values():
        for source in _sources(agent, revised=recipe.team.turns > 1):
            for name, is_needed in _read(source):
                known[name] = known.get(name, False) or is_needed
    needed = tuple(name for name, is_needed in known.items() if is_needed)
    asked = [name for name in known if name != CONVERSATION]
    text = chosen or (asked[0] if len(asked) == 1 else "prompt")
    return Fields(text, needed, tuple(known))


def _sources(agent: AgentSpec, *, revised: bool) -> list[str]:
    revise = [agent.revise] if revised else []
    prompt = PROMPT if agent.prompt is None else agent.prompt
    observed = [prompt, agent.discuss, *agent.templates.values()]
    return [agent.role, agent.prefix, *observed, *revise]


def _read(source: str) -> Iterator[tuple[str, bool]]:
    """Each field of `task` in a template, and whether the template fails without it."""
    try:
        tree = Environment().parse(source)
    except TemplateSyntaxError:
        return  # told, with its place, where the team is opened
    asked = {name for test in tree.find_all(nodes.Test) for name in _guarded(test, "defined")}
    asked |= {name for use in tree.find_all(nodes.Filter) for name in _guarded(use, "default")}
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if name := _field(node):
            yield name, name not in asked


def _guarded(node: nodes.Test | nodes.Filter, name: str) -> list[str]:
    found = _field(node.node) if node.name == name and node.node is not None else ""
    return [found] if found else []


def _field(node: nodes.Node) -> str:
    """The name in `task.name` or `task["name"]`, else ""."""
    match node:
        case nodes.Getattr(node=nodes.Name(name="task"), attr=str(name)):
            return "" if hasattr(dict, name) else name
        case nodes.Getitem(node=nodes.Name(name="task"), arg=nodes.Const(value=str(name))):
            return name
        case _:
            return ""
