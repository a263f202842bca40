"""Sources of feedback, and the simple ones: no feedback, one bit, or a user's function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from collab.agents.joins import Joint
from collab.errors import FeedbackError
from collab.plugins import check_call, check_options, find_function
from collab.recipe.feedback import PluginFeedbackSpec
from collab.recipe.team import NO_ROLES, Roles, roles_of
from collab.records import Feedback, Problem
from collab.records.former import FormerArtifacts
from collab.sandbox.jail.whole_program import MAIN_ENTRY_POINT
from collab.threads import run_in_thread


@dataclass(frozen=True)
class Outcome(FormerArtifacts):
    """The outcome of a turn. Hidden fields are removed from its problem."""

    problem: Problem
    agents: tuple[str, ...]
    """Agents of the team, in order."""
    artifacts: Mapping[str, str]
    joint: Joint
    solved: bool | None
    """True if the reward counts the task as solved, or None if it does not decide."""
    turn: int
    sample: int = 0
    roles: Roles = NO_ROLES
    """Roles in the team. By default, every agent contributes, and `main` or the last agent writes
    the entry point."""
    spent: list[Feedback] = field(default_factory=list, compare=False, repr=False)
    """Tokens and cost of the models that sources asked, each in a feedback without text. They count
    even if the source fails or is canceled."""

    def __post_init__(self) -> None:
        if not self.roles.contributors:
            object.__setattr__(self, "roles", roles_of(self.agents))
        public = Problem(address=self.problem.address, public=self.problem.public)
        object.__setattr__(self, "problem", public)

    @property
    def function(self) -> str:
        """Function that a code problem asks for, or "" for a program that reads and prints, a
        method or a class."""
        name = str(self.problem.public["entry_point"])
        return name if name.isidentifier() and name != MAIN_ENTRY_POINT else ""


def entry_point(problem: Problem, source: str) -> str:
    """Return the function that a code problem asks for.

    Raises:
        FeedbackError: the problem asks for no function, so `source` has nothing to report.
    """
    name = problem.public.get("entry_point")
    if not isinstance(name, str):
        raise FeedbackError(
            f"feedback '{source}' reads programs, but {problem.address} is not a code problem (no"
            " field 'entry_point'); use self, expert or your own function"
        )
    return name


def shorten(text: str, limit: int = 200) -> str:
    """Return the text on one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


class Source:
    """A source of feedback on a turn, for the agents' next turn."""

    name: str

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        """Return the feedback by agent. Agents without feedback are omitted."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Release the source's own resources. Most sources have none."""


class OwnHistory(Source):
    """Gives no feedback: the agent only has its own history and the request to revise."""

    name = "self"

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        """Return no feedback."""
        return {agent: Feedback(source=self.name, text="") for agent in outcome.agents}


class Solved(Source):
    """Reports one bit: whether the task is solved."""

    name = "solved"

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        """Return, for each agent, whether the task is solved.

        Raises:
            FeedbackError: the reward does not say when the task is solved.
        """
        if outcome.solved is None:
            raise FeedbackError(
                f"feedback 'solved': the reward does not say whether {outcome.problem.address} is"
                " solved; mark one of its parts with 'solves: true'"
            )
        text = "Result: solved." if outcome.solved else "Result: not solved yet."
        return {agent: Feedback(source=self.name, text=text) for agent in outcome.agents}


class Plugin(Source):
    """A user's function that maps an `Outcome` and options to feedback.

    The function returns a string or a `Feedback` for all agents, or a mapping from agent to either.

    Raises:
        RecipeError: on construction: there is no such function, or it does not take an option.
    """

    def __init__(self, spec: PluginFeedbackSpec) -> None:
        self.name = spec.source
        self._function = find_function("feedback", spec.source, {})
        what = f"feedback '{spec.source}'"
        self._options = check_options(what, self._function, spec.options)
        check_call(what, self._function, ("outcome",), self._options)

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        """Call the user's function, and return its feedback by agent.

        Raises:
            FeedbackError: the result is not text, a `Feedback` or a mapping to these.
        """
        returned = await run_in_thread(self._function, outcome, **self._options)
        if isinstance(returned, str | Feedback):
            returned = dict.fromkeys(outcome.agents, returned)
        if not isinstance(returned, Mapping):
            raise FeedbackError(
                f"feedback '{self.name}' returned a {type(returned).__name__}; a source"
                " returns text for all agents, or a dict from agent to text or Feedback"
            )
        return {agent: self._item(outcome, agent, item) for agent, item in returned.items()}

    def _item(self, outcome: Outcome, agent: Any, item: Any) -> Feedback:
        if agent not in outcome.agents:
            raise FeedbackError(
                f"feedback '{self.name}' names {agent!r:.40}; the team: {', '.join(outcome.agents)}"
            )
        if isinstance(item, str):
            return Feedback(source=self.name, text=item)
        if isinstance(item, Feedback):
            return item
        raise FeedbackError(
            f"feedback '{self.name}' has a {type(item).__name__} for {agent}, not text or Feedback"
        )
