"""One served team: the fields of its problem, and the problem of a request."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes

from collab.errors import RecipeError
from collab.feedback import check_sources
from collab.models import ChecksSettings
from collab.recipe import Recipe
from collab.recipe.team import PROMPT, AgentSpec
from collab.records import Problem
from collab.runtime import Session
from collab.runtime.rehearsal import gives_feedback
from collab.serving.reading import TeamQuestion, transcript
from collab.serving.refusal import invalid
from collab.serving.settings import History
from collab.wording import option

CONVERSATION = "conversation"
"""The field for earlier messages of the conversation, a list."""


@dataclass(frozen=True)
class Fields:
    """The fields of a problem that a request can set."""

    text: str
    """The field that the user's text fills."""
    needed: tuple[str, ...]
    """Fields without which a template fails."""
    known: tuple[str, ...]
    """All fields that a template names."""
    reads_all: bool = False
    """True if a template reads `task` in another way than by the name of a field."""

    @property
    def reads_text(self) -> bool:
        """True if a template reads the user's text, or names no field at all."""
        return self.reads_all or self.text in self.known or not self.known


def fields_of(recipe: Recipe, chosen: str | None = None) -> Fields:
    """Return the fields of a problem that the team's templates read.

    Raises:
        RecipeError: no template reads the `chosen` field.
    """
    known: dict[str, bool] = {}
    reads_all = False
    revised = recipe.team.turns > 1 or gives_feedback(recipe)
    agents = recipe.team.agents.values()
    sources = [source for agent in agents for source in _sources(agent, revised=revised)]
    for source in sources:
        needs, is_whole = _fields_read(source)
        reads_all |= is_whole
        for name, is_needed in needs.items():
            known[name] = known.get(name, False) or is_needed
    needed = tuple(name for name, is_needed in known.items() if is_needed)
    fields = [name for name in known if name != CONVERSATION]
    if chosen and fields and chosen not in fields and not reads_all:
        raise RecipeError(
            f"no template of the team '{recipe.team.name}' reads the field '{chosen}'; choose one"
            f" with {option('field')}: {', '.join(fields)}"
        )
    text = chosen or (fields[0] if len(fields) == 1 else "prompt")
    return Fields(text, needed, tuple(known), reads_all)


def _sources(agent: AgentSpec, *, revised: bool) -> list[str]:
    revise = [agent.revise] if revised else []
    prompt = PROMPT if agent.prompt is None else agent.prompt
    observed = [prompt, agent.discuss, *agent.templates.values()]
    return [agent.role, agent.prefix, *observed, *revise]


def _fields_read(source: str) -> tuple[dict[str, bool], bool]:
    """Return each field of `task` in a template, with whether the template fails without it, and
    whether the template uses `task` in another way than by the name of a field."""
    try:
        tree = Environment().parse(source)
    except TemplateSyntaxError:
        return {}, False  # opening the team raises it, with its position
    optional = {
        _field(node.node)
        for node in tree.find_all((nodes.Test, nodes.Filter))
        if node.name in ("defined", "default") and node.node is not None
    }
    named = list(filter(None, map(_field, tree.find_all((nodes.Getattr, nodes.Getitem)))))
    uses = sum(node.name == "task" for node in tree.find_all(nodes.Name))
    return {name: name not in optional for name in named}, uses > len(named)


def _field(node: nodes.Node) -> str:
    """Return the name in `task.name` or `task["name"]`, otherwise ""."""
    match node:
        case nodes.Getattr(node=nodes.Name(name="task"), attr=str(name)):
            return "" if hasattr(dict, name) else name
        case nodes.Getitem(node=nodes.Name(name="task"), arg=nodes.Const(value=str(name))):
            return name
        case _:
            return ""


@dataclass
class ServedTeam:
    """One team, ready for requests."""

    name: str
    """The name that clients send as `model`."""
    recipe: Recipe
    """The served recipe: without a task, and without feedback that would need one."""
    fields: Fields
    session: Session
    history: History = "refuse"
    since: int = field(default_factory=lambda: int(time.time()))

    @property
    def is_direct(self) -> bool:
        """True if one agent writes the answer, whose text can be streamed as it is generated."""
        team = self.recipe.team
        plain = all(
            agent.parser == "text" and agent.harness.use == "respond"
            for agent in team.agents.values()
        )
        once = team.turns == 1 and team.protocol.use in ("single", "parallel", "sequential")
        return plain and once and team.join == "text" and len(team.agents) == 1

    def problem(self, question: TeamQuestion) -> Problem:
        """Return a request as a problem for the team.

        Raises:
            Refused: a required field is missing, the conversation has no field, or a model of the
                team does not support a setting.
        """
        text, public = question.text, dict[str, Any](question.fields)
        if CONVERSATION in self.fields.known:
            public[CONVERSATION] = [{"role": s.role, "content": s.text} for s in question.before]
        elif question.before and self.history == "join":
            text = transcript(question.before, text)
        elif question.before:
            raise invalid(
                "this team takes one user message and no earlier ones; start the server with"
                " --history join to put earlier messages before it",
                question.place,
                "unsupported_conversation",
            )
        public[self.fields.text] = text
        for name in self.fields.needed:
            if name not in public:
                raise invalid(
                    f"this team needs the field '{name}'; give it in collab.fields",
                    f"collab.fields.{name}",
                    "missing_field",
                )
        problem = Problem(address=f"served/{self.name}", public=public)
        self._check(problem, question)
        return problem

    def notes(self, question: TeamQuestion) -> list[str]:
        """Return a warning for each field that the messages replace."""
        replaced = {self.fields.text, CONVERSATION} & {*self.fields.known, self.fields.text}
        return [f"collab.fields.{n} was ignored" for n in question.fields if n in replaced]

    def _check(self, problem: Problem, question: TeamQuestion) -> None:
        try:
            if gives_feedback(self.recipe):
                check_sources(self.recipe.team.feedback, problem)
        except RecipeError as error:
            raise invalid(f"feedback cannot be given: {error}", "collab.fields") from None
        for name, agent in self.recipe.team.agents.items():
            model = self.session.models[name]
            if isinstance(model, ChecksSettings):
                try:
                    model.check(question.sampling(self.recipe.sampling_of(name)), agent.adapter)
                except RecipeError:
                    raise invalid(
                        "a model of this team cannot follow temperature or top_p; leave them out",
                        "temperature",
                    ) from None
