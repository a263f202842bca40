"""Scores a joint action: parts in order, gates, requirements, the maximum."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from collab.agents.joins import Joint
from collab.recipe.reward import RewardSpec
from collab.recipe.team import Roles, roles_of
from collab.records import PartScore, Problem, Score
from collab.rewards.context import Part, RewardContext
from collab.rewards.library import examine, open_part, trial_of
from collab.rewards.parts import PartFunction

if TYPE_CHECKING:
    from collab.sandbox import Sandbox


class Scorer:
    """Scores joint actions by one reward, several of them at the same time if necessary.

    Raises:
        RecipeError: on construction: a part is unknown, or does not take an option.
    """

    def __init__(
        self, spec: RewardSpec, sandbox: Sandbox | None, roles: Roles | None = None
    ) -> None:
        """Make a scorer. Without `roles`, every agent contributes, and `main` or the last agent has
        the entry role."""
        self.spec, self._sandbox, self._roles = spec, sandbox, roles
        self._parts = {name: open_part(name, part) for name, part in spec.parts.items()}

    async def score(
        self, problem: Problem, joint: Joint, artifacts: Mapping[str, str], agents: Sequence[str]
    ) -> Score:
        """Return the joint reward of `joint`, the joined artifacts of `agents`.

        `agents` are in the team's order. `artifacts` also has the artifacts of other agents, for
        parts that use them.

        Raises:
            RewardError: a part raises, takes too long, or returns no number from 0 to 1.
            SandboxError: the sandbox itself failed.
        """
        started = time.perf_counter()
        roles = self._roles.among(agents) if self._roles else roles_of(agents)
        ordered = {**dict.fromkeys(agents, ""), **artifacts}
        context = RewardContext(
            problem, joint, ordered, roles=roles, sandbox=self._sandbox, trial_of=trial_of
        )
        scoring = _Scoring(self.spec, self._parts, context)
        try:
            parts = [await scoring.part(name) for name in self.spec.parts]
            examined = {**await examine(context, self._sandbox)}
        finally:
            context.close()
        solved = examined.pop("solved", None)
        return Score(
            reward=math.fsum(part.points for part in parts),
            maximum=math.fsum(part.weight for part in parts if part.applies and part.weight > 0),
            solved=solved if scoring.solved is None else scoring.solved,
            parts=tuple(parts),
            **examined,
            seconds=time.perf_counter() - started,
        )


class _Scoring:
    """The state of one scoring: the parts done so far."""

    def __init__(
        self, spec: RewardSpec, functions: Mapping[str, PartFunction], context: RewardContext
    ) -> None:
        self._spec, self._functions, self._context = spec, functions, context
        self._done: dict[str, PartScore] = {}
        self.closed: str | None = None
        """The gate at which scoring stopped."""
        self._verdicts: list[bool] = []

    @property
    def solved(self) -> bool | None:
        """True if every part that can judge it counts the task as solved, or None if none can."""
        return all(self._verdicts) if self._verdicts else None

    async def part(self, name: str) -> PartScore:
        spec = self._spec.parts[name]
        part = self._without_scoring(name)
        if part is None:
            part = await self._functions[name].evaluate(self._context, self._spec.seconds)
        score = PartScore(
            name=name,
            level=spec.level or name,
            value=part.value,
            weight=spec.weight,
            reason=part.reason,
            applies=part.applies,
        )
        self._done[name] = score
        solves = spec.solves and part.value == 1.0 if part.solved is None else part.solved
        if part.applies and (spec.solves or part.solved is not None):
            self._verdicts.append(solves)
        passes = score.value > 0 if part.passes is None else part.passes
        if spec.gate and score.applies and not passes and self.closed is None:
            self.closed = name
        return score

    def _without_scoring(self, name: str) -> Part | None:
        """Return the part's value if it is settled without calling its function."""
        spec = self._spec.parts[name]
        lacks = self._functions[name].lacks(self._context.roles, self._context.artifacts)
        if lacks:
            return Part(0.0, lacks, applies=False)
        required = self._done[spec.requires] if spec.requires else None
        if required is not None and not required.applies:
            return Part(0.0, f"requires '{required.name}', which does not apply", applies=False)
        if self.closed is not None:
            return Part(0.0, f"not scored: the gate '{self.closed}' is closed")
        if required is not None and not required.value > 0:
            return Part(0.0, f"not scored: requires '{required.name}', which is 0")
        return None
