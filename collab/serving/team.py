"""One served team, and the problem of a request."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from collab.errors import RecipeError
from collab.feedback import check_sources
from collab.recipe import Recipe
from collab.recipe.team import CODE_FIELDS, CODE_JOINS
from collab.records import Problem
from collab.runtime import Session, harness, protocols
from collab.runtime.fields import CONVERSATION, Fields
from collab.runtime.rehearsal import gives_feedback
from collab.serving.reading import TeamQuestion, shorten_name, transcript
from collab.serving.refusal import invalid
from collab.serving.settings import History


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
    opened_at: int = field(default_factory=lambda: int(time.time()))

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

    @cached_property
    def known_fields(self) -> tuple[str, ...] | None:
        """Fields that the team reads, or None if it may read any: in a template with the whole
        task, in feedback, or in the user's own functions.
        """
        team = self.recipe.team
        is_own = (
            team.join not in ("text", *CODE_JOINS)
            or team.protocol.use not in protocols.BUILT_IN
            or any(agent.harness.use not in harness.BUILT_IN for agent in team.agents.values())
        )
        if is_own or self.fields.reads_all or gives_feedback(self.recipe):
            return None
        joined = CODE_FIELDS if team.join in CODE_JOINS else ()
        return tuple(dict.fromkeys((self.fields.text, *self.fields.known, *joined)))

    def make_problem(self, question: TeamQuestion) -> Problem:
        """Return a request as a problem for the team.

        Raises:
            Refused: a field is missing or unknown, the conversation has no field, or a model of the
                team does not support a setting.
        """
        known = self.known_fields
        if known is not None and (unknown := [n for n in question.fields if n not in known]):
            name = shorten_name(unknown[0])
            others = [n for n in known if n not in (self.fields.text, CONVERSATION)]
            raise invalid(
                f"this team has no field '{name}'; its fields beside the message:"
                f" {', '.join(others) or 'none'}",
                f"collab.fields.{name}",
                "unknown_field",
            )
        text, public = question.text, dict[str, Any](question.fields)
        if CONVERSATION in self.fields.known:
            public[CONVERSATION] = [{"role": s.role, "content": s.text} for s in question.earlier]
        elif question.earlier and self.history == "join":
            text = transcript(question.earlier, text)
        elif question.earlier:
            raise invalid(
                "this team takes one user message and no earlier ones; put them into that message,"
                " or start the server with --history join",
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
        self._check_problem(problem, question)
        return problem

    def ignored_warnings(self, question: TeamQuestion) -> list[str]:
        """Return a warning for each field that the messages replace."""
        replaced = {self.fields.text, CONVERSATION} & {*self.fields.known, self.fields.text}
        return [f"collab.fields.{n} was ignored" for n in question.fields if n in replaced]

    def _check_problem(self, problem: Problem, question: TeamQuestion) -> None:
        try:
            if gives_feedback(self.recipe):
                check_sources(self.recipe.team.feedback, problem)
        except RecipeError as error:
            raise invalid(f"feedback cannot be given: {error}", "collab.fields") from None
        for name, agent in self.recipe.team.agents.items():
            model = self.session.models[name]
            try:
                model.check(question.sampling(self.recipe.sampling_of(name)), agent.adapter)
            except RecipeError:
                raise invalid(
                    "a model of this team cannot follow temperature, top_p or stop; leave them out",
                    "stop" if question.stop else "temperature",
                ) from None
