"""The argument of reward parts: the problem, the artifacts, the verdict on the joint artifact."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collab.agents.joins import Joint
from collab.errors import RewardError
from collab.recipe.team import Roles
from collab.records import Problem
from collab.records.former import FormerArtifacts
from collab.stats import Stopwatch

if TYPE_CHECKING:
    from collab.sandbox import Sandbox, Treatment, Trial, Verdict


MakeTrial = Callable[["RewardContext", str, "Treatment | None", Hashable], "Trial"]
"""Makes the sandbox's trial of an artifact of a problem."""


@dataclass(frozen=True)
class Part:
    """The result of a part's function."""

    value: float
    """Value from 0 to 1."""
    reason: str = ""
    applies: bool = True
    """False if the part does not apply here. It then does not count towards the maximum either."""
    passes: bool | None = None
    """True if scoring continues after this gate. None: if the value is above 0."""
    solved: bool | None = None
    """True if the task is solved. None: a part marked `solves` counts a value of 1 as solved."""


class RewardContext(FormerArtifacts):
    """The argument of a reward part: a joint action and its problem, including hidden fields."""

    def __init__(
        self,
        problem: Problem,
        joint: Joint,
        artifacts: Mapping[str, str],
        *,
        roles: Roles,
        sandbox: Sandbox | None,
        trial_of: MakeTrial,
    ) -> None:
        self.problem = problem
        self.roles = roles
        self.artifacts = dict(artifacts)
        """Artifacts by agent, in the team's order, including agents that do not write the
        answer."""
        self.joint = joint
        self._started, self._waiting = time.perf_counter(), Stopwatch()
        self._sandbox, self._trial_of = sandbox, trial_of
        self._loop = asyncio.get_running_loop()
        self._verdicts: dict[Hashable, asyncio.Task[Verdict]] = {}

    @property
    def answer(self) -> str:
        """The joint answer as text, e.g. the joined program."""
        return self.joint.text

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that write the answer, in the team's order."""
        return self.roles.contributors

    @property
    def contributions(self) -> dict[str, str]:
        """The artifacts that were joined, by agent."""
        return {agent: self.artifacts[agent] for agent in self.agents}

    def field(self, name: str) -> str:
        """Return a field of the problem, public or hidden, as text.

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

    async def verdict(
        self,
        artifact: str | None = None,
        *,
        treatment: Treatment | None = None,
        run: int = 0,
        subject: Hashable = None,
    ) -> Verdict:
        """Return the sandbox's verdict on the joint artifact, requested at most once.

        Args:
            artifact: scored instead of the joint artifact.
            treatment: replaces the values that one of its functions returns.
            run: another number forces a separate run.
            subject: the part of the problem to judge, in terms of the reward's family; None: the
                problem's own function.

        Raises:
            RewardError: there is no sandbox, or the problem lacks a field that the verdict needs.
            SandboxError: the sandbox itself failed.
        """
        text = self.joint.text if artifact is None else artifact
        work = self._cached_verdict(text, treatment, run, subject)
        if asyncio.get_running_loop() is self._loop:
            return await work
        elsewhere = asyncio.run_coroutine_threadsafe(work, self._loop)
        return await asyncio.wrap_future(elsewhere)

    async def _cached_verdict(
        self, text: str, treatment: Treatment | None, run: int, subject: Hashable
    ) -> Verdict:
        key = (text, treatment, run, subject)
        if key not in self._verdicts:
            work = self._request_verdict(text, treatment, subject)
            self._verdicts[key] = asyncio.create_task(work)
        return await self._verdicts[key]

    async def _request_verdict(
        self, text: str, treatment: Treatment | None, subject: Hashable
    ) -> Verdict:
        if self._sandbox is None:
            raise RewardError("the reward needs an open sandbox")
        trial = self._trial_of(self, text, treatment, subject)
        with self._waiting:
            return await self._sandbox.check(trial)

    def known_verdict(self) -> Verdict | None:
        """Return the verdict on the joint artifact if a part has requested it, otherwise None."""
        task = self._verdicts.get((self.joint.text, None, 0, None))
        return task.result() if task is not None and task.done() else None

    def elapsed(self) -> float:
        """Return the seconds of scoring, without those spent waiting for the sandbox."""
        return time.perf_counter() - self._started - self._waiting.seconds

    def close(self) -> None:
        """Cancel all sandbox runs that are still pending."""
        for task in self._verdicts.values():
            task.cancel()


def artifact_of(context: RewardContext, agent: str) -> str:
    """Return the artifact of `agent`, or the joint artifact for ""."""
    return context.artifacts[agent] if agent else context.answer
