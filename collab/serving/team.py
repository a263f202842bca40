"""One team that is served: the problem that a request poses, and its episode."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from collab.errors import RecipeError
from collab.feedback import check_sources
from collab.models import ChecksSettings
from collab.recipe import Recipe
from collab.records import Problem
from collab.runtime import Session
from collab.runtime.episode import Start
from collab.runtime.events import Event
from collab.serving.asking import Asked, transcript
from collab.serving.fields import CONVERSATION, Fields
from collab.serving.refusal import invalid
from collab.serving.settings import History


@dataclass
class ServedTeam:
    """One team, ready to be asked."""

    name: str
    """What clients call `model`."""
    recipe: Recipe
    """As it is served: without a task, and without feedback that would need one."""
    fields: Fields
    session: Session
    history: History = "refuse"
    since: int = field(default_factory=lambda: int(time.time()))

    @property
    def is_direct(self) -> bool:
        """Whether the answer is what one agent writes, so that it can be told as it is written."""
        team = self.recipe.team
        plain = all(
            agent.parser == "text" and agent.harness.use == "respond"
            for agent in team.agents.values()
        )
        once = team.turns == 1 and team.protocol.use in ("single", "parallel", "sequential")
        return plain and once and team.join == "text" and len(team.agents) == 1

    def problem(self, asked: Asked) -> Problem:
        """The problem that a request poses.

        Raises:
            Refused: a field that is needed is missing, the conversation has no place, or a setting
                is one that a model of the team cannot follow.
        """
        text, public = asked.text, dict[str, Any](asked.fields)
        if CONVERSATION in self.fields.known:
            public[CONVERSATION] = [{"role": s.role, "content": s.text} for s in asked.before]
        elif asked.before and self.history == "join":
            text = transcript(asked.before, text)
        elif asked.before:
            raise invalid(
                "this team takes one message of the user, and no earlier ones; the server can"
                " put them before it when started with --history join",
                "messages",
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
        self._check(problem, asked)
        return problem

    def _check(self, problem: Problem, asked: Asked) -> None:
        try:
            if self.recipe.team.turns > 1:
                check_sources(self.recipe.team.feedback, problem)
        except RecipeError as error:
            raise invalid(f"feedback cannot be given: {error}", "collab.fields") from None
        for name, agent in self.recipe.team.agents.items():
            model = self.session.models[name]
            if isinstance(model, ChecksSettings):
                try:
                    model.check(asked.sampling(self.recipe.sampling_of(name)), agent.adapter)
                except RecipeError:
                    raise invalid(
                        "a model of this team cannot follow temperature or top_p; leave them out",
                        "temperature",
                    ) from None

    async def play(self, asked: Asked, problem: Problem, seed: int) -> AsyncGenerator[Event]:
        """The events of one episode; leaving it early cancels the episode."""
        events = self.session.play(
            [Start(problem)], seed=seed, progress=asked.stream, adjust=asked.sampling
        )
        async with aclosing(events):
            async for event in events:
                yield event
