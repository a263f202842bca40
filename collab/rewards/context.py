"""What a reward part sees: the problem, the artefacts, and the verdict on the joint artefact."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from collab.agents.joins import Joint
from collab.errors import RewardError
from collab.recipe.roles import Roles, roles_of
from collab.records import Problem
from collab.rewards.verdicts import Verdicts

if TYPE_CHECKING:
    from collab.sandbox import Treatment, Trial, Verdict

T = TypeVar("T")

TrialOf = Callable[["RewardContext", str, "Treatment | None", Hashable], "Trial"]
"""Makes the sandbox's trial of an artefact of a problem."""


@dataclass(frozen=True)
class Part:
    """What a part's function found."""

    value: float
    """From 0 to 1."""
    reason: str = ""
    applies: bool = True
    """False where the part has no meaning here; it then leaves the maximum too."""
    passes: bool | None = None
    """Whether a gate here lets scoring go on; None: when the value is above 0."""
    solved: bool | None = None
    """Whether the task is solved; None: a part marked `solves` says so by a value of 1."""


class RewardContext:
    """One joint action under a problem's hidden eyes."""

    def __init__(
        self,
        problem: Problem,
        joint: Joint,
        artefacts: Mapping[str, str],
        verdicts: Verdicts,
        *,
        trial_of: TrialOf,
        roles: Roles | None = None,
    ) -> None:
        """`roles`: by default every agent contributes, and `main` or the last one has the entry."""
        self.problem = problem
        self.roles = roles or roles_of(tuple(artefacts))
        self.artefacts = dict(artefacts)
        """By agent, in the team's order; also of those that do not write the answer."""
        self.joint = joint
        self.verdicts = verdicts
        self._trial_of = trial_of
        self._known: dict[Hashable, object] = {}

    @property
    def agents(self) -> tuple[str, ...]:
        """Those that write the answer, in the team's order."""
        return self.roles.contributors

    @property
    def contributions(self) -> dict[str, str]:
        """The artefacts that the join was handed, by agent."""
        return {agent: self.artefacts[agent] for agent in self.agents}

    def field(self, name: str) -> str:
        """A field of the problem, public or hidden, as text.

        Raises:
            RewardError: the problem has no such field.
        """
        fields = {**self.problem.public, **self.problem.hidden}
        if name not in fields:
            raise RewardError(
                f"{self.problem.address} has no field '{name}', which the reward needs"
                f" (fields: {', '.join(fields)})"
            )
        return str(fields[name])

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value that `make` gave for `key`; parts of one reward share what they work out."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[return-value]

    async def verdict(
        self,
        artefact: str | None = None,
        *,
        treatment: Treatment | None = None,
        run: int = 0,
        subject: Hashable = None,
    ) -> Verdict:
        """The sandbox's verdict on the joint artefact, asked for at most once.

        Args:
            artefact: judged in place of the joint artefact.
            treatment: replaces the values that one of its functions gives.
            run: another number is a run of its own.
            subject: what is judged of the problem, as the family of the reward names it; None: what
                it asks for.

        Raises:
            RewardError: there is no sandbox, or the problem lacks what a verdict is made of.
            SandboxError: the sandbox itself failed.
        """
        text = self.joint.text if artefact is None else artefact
        trial = partial(self._trial_of, self, text, treatment, subject)
        return await self.verdicts.on((text, treatment, run, subject), trial)

    def known_verdict(self) -> Verdict | None:
        """The verdict on the joint artefact if a part has asked for it; else None."""
        return self.verdicts.known((self.joint.text, None, 0, None))
