"""Fields of a problem that a team's templates read, and which of them a user's text fills."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment, TemplateSyntaxError, nodes

from collab.errors import RecipeError
from collab.recipe import Recipe
from collab.recipe.team import DEFAULT_PROMPT, AgentSpec
from collab.runtime.rehearsal import gives_feedback
from collab.wording import format_option

CONVERSATION = "conversation"
"""The field for earlier messages of the conversation, a list."""


@dataclass(frozen=True)
class Fields:
    """The fields of a problem that the team's templates read."""

    text: str
    """The field that the user's text fills."""
    needed: tuple[str, ...]
    """Fields without which a template fails."""
    known: tuple[str, ...]
    """All fields that a template names."""
    reads_all: bool = False
    """True if a template reads `task` in another way than by the name of a field."""

    @property
    def is_text_named(self) -> bool:
        """True if a template reads the user's text."""
        return self.reads_all or self.text in self.known

    @property
    def is_text_used(self) -> bool:
        """True if a template reads the user's text, or names no field at all."""
        return self.is_text_named or not self.known


def fields_of(recipe: Recipe, chosen: str | None = None) -> Fields:
    """Return the fields of a problem that the team's templates read.

    Raises:
        RecipeError: no template reads the `chosen` field.
    """
    known: dict[str, bool] = {}
    reads_all = False
    revised = recipe.team.turns > 1 or gives_feedback(recipe)
    agents = recipe.team.agents.values()
    sources = [source for agent in agents for source in _template_sources(agent, revised=revised)]
    for source in sources:
        needs, is_whole = _read_task_fields(source)
        reads_all |= is_whole
        for name, is_needed in needs.items():
            known[name] = known.get(name, False) or is_needed
    needed = tuple(name for name, is_needed in known.items() if is_needed)
    fields = [name for name in known if name != CONVERSATION]
    if chosen and fields and chosen not in fields and not reads_all:
        raise RecipeError(
            f"no template of the team '{recipe.team.name}' reads the field '{chosen}'; choose one"
            f" with {format_option('field')}: {', '.join(fields)}"
        )
    text = chosen or (fields[0] if len(fields) == 1 else "prompt")
    return Fields(text, needed, tuple(known), reads_all)


def _template_sources(agent: AgentSpec, *, revised: bool) -> list[str]:
    revise = [agent.revise] if revised else []
    prompt = DEFAULT_PROMPT if agent.prompt is None else agent.prompt
    observed = [prompt, agent.discuss, *agent.templates.values()]
    return [agent.role, agent.prefix, *observed, *revise]


def _read_task_fields(source: str) -> tuple[dict[str, bool], bool]:
    """Return each field of `task` in a template, with whether the template fails without it.

    The second result says whether the template also uses `task` in another way.
    """
    try:
        tree = Environment().parse(source)
    except TemplateSyntaxError:
        return {}, False  # opening the team raises it, with its position
    optional = {
        _task_field(node.node)
        for node in tree.find_all((nodes.Test, nodes.Filter))
        if node.name in ("defined", "default") and node.node is not None
    }
    named = list(filter(None, map(_task_field, tree.find_all((nodes.Getattr, nodes.Getitem)))))
    uses = sum(node.name == "task" for node in tree.find_all(nodes.Name))
    return {name: name not in optional for name in named}, uses > len(named)


def _task_field(node: nodes.Node) -> str:
    """Return the name in `task.name` or `task["name"]`, otherwise ""."""
    match node:
        case nodes.Getattr(node=nodes.Name(name="task"), attr=str(name)):
            return "" if hasattr(dict, name) else name
        case nodes.Getitem(node=nodes.Name(name="task"), arg=nodes.Const(value=str(name))):
            return name
        case _:
            return ""
