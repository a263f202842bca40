"""What feedback may know of a turn: everything but the problem's hidden fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collab.agents.joins import Joint
from collab.errors import FeedbackError
from collab.recipe.roles import NOBODY, Roles, roles_of
from collab.records import Problem
from collab.sandbox.jail.whole_program import MAIN


@dataclass(frozen=True)
class Outcome:
    """One turn's outcome. The problem loses its hidden fields here, whoever made the outcome."""

    problem: Problem
    agents: tuple[str, ...]
    """The team in its order."""
    artefacts: Mapping[str, str]
    joint: Joint
    solved: bool | None
    """Whether all hidden tests hold; None for tasks without tests."""
    turn: int
    sample: int = 0
    roles: Roles = NOBODY
    """Who writes the answer; by default everybody, and `main` or the last one the entry point."""

    def __post_init__(self) -> None:
        if not self.roles.contributors:
            object.__setattr__(self, "roles", roles_of(self.agents))
        public = Problem(address=self.problem.address, public=self.problem.public)
        object.__setattr__(self, "problem", public)

    def entry_point(self, source: str) -> str:
        """The function that a code problem asks for.

        Raises:
            FeedbackError: the problem asks for no function, so `source` cannot tell anything.
        """
        return entry_point(self.problem, source)

    @property
    def function(self) -> str:
        """The function that a code problem asks for; empty for a program that reads and prints, a
        method or a class."""
        name = str(self.problem.public["entry_point"])
        return name if name.isidentifier() and name != MAIN else ""


def entry_point(problem: Problem, source: str) -> str:
    """The function that a code problem asks for.

    Raises:
        FeedbackError: it asks for no function, so that `source` cannot tell anything.
    """
    name = problem.public.get("entry_point")
    if not isinstance(name, str):
        raise FeedbackError(
            f"feedback '{source}' reads programs, and {problem.address} asks for none (it has no"
            " field 'entry_point'); sources that suit it: self, expert, or a function of your own"
        )
    return name
