"""Scores a joint action: parts in order, gates, requirements, the maximum."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from collab.agents.joins import Joint
from collab.recipe.reward import PartSpec, RewardSpec
from collab.recipe.team import Roles, roles_of
from collab.records import PartScore, Problem, Score
from collab.rewards.context import Part, RewardContext
from collab.rewards.library import open_part, score_fields, trial_of

if TYPE_CHECKING:
    from collab.sandbox import Sandbox


class Scorer:
    """Scores joint actions by one reward, several of them at the same time if necessary.

    Raises:
        RecipeError: on construction: a part is unknown, or does not fit its options or `agents`.
    """

    def __init__(
        self,
        spec: RewardSpec,
        sandbox: Sandbox | None,
        roles: Roles | None = None,
        agents: Collection[str] = (),
    ) -> None:
        """Make a scorer. Without `roles`, every agent contributes, and `main` or the last agent has
        the entry role."""
        self.spec, self._sandbox, self._roles = spec, sandbox, roles
        self._parts = {name: open_part(name, part) for name, part in spec.parts.items()}
        for part in self._parts.values():
            if agents and (check := getattr(part.function, "check_agents", None)):
                check(agents)

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
        roles = self._roles.limited_to(agents) if self._roles else roles_of(agents)
        ordered = {**dict.fromkeys([*artifacts, *agents], ""), **artifacts}
        context = RewardContext(
            problem, joint, ordered, roles=roles, sandbox=self._sandbox, trial_of=trial_of
        )
        scored: dict[str, PartScore] = {}
        verdicts: list[bool] = []
        closed_gate: str | None = None  # the gate at which scoring stopped
        try:
            for name, spec in self.spec.parts.items():
                part = self._part_without_call(name, context, scored, closed_gate)
                if part is None:
                    part = await self._parts[name].evaluate(context, self.spec.seconds)
                scored[name] = _part_score(name, spec, part)
                if part.applies and (spec.solves or part.solved is not None):
                    verdicts.append(part.value == 1.0 if part.solved is None else part.solved)
                passes = part.value > 0 if part.passes is None else part.passes
                if spec.gate and part.applies and not passes:
                    closed_gate = closed_gate or name
            fields = {**await score_fields(context, self._sandbox)}
        finally:
            context.close()
        solved = fields.pop("solved", None)
        return Score(
            reward=math.fsum(part.points for part in scored.values()),
            maximum=math.fsum(p.weight for p in scored.values() if p.applies and p.weight > 0),
            solved=all(verdicts) if verdicts else solved,
            parts=tuple(scored.values()),
            **fields,
            seconds=time.perf_counter() - started,
        )

    def _part_without_call(
        self,
        name: str,
        context: RewardContext,
        scored: Mapping[str, PartScore],
        closed_gate: str | None,
    ) -> Part | None:
        """Return the part's value if it is settled without calling its function."""
        reason = self._parts[name].inapplicable_reason(context.roles, context.artifacts)
        if reason:
            return Part(0.0, reason, applies=False)
        requires = self.spec.parts[name].requires
        required = scored[requires] if requires else None
        if required is not None and not required.applies:
            return Part(0.0, f"requires '{required.name}', which does not apply", applies=False)
        if closed_gate is not None:
            return Part(0.0, f"not scored: the gate '{closed_gate}' is closed")
        if required is not None and not required.value > 0:
            return Part(0.0, f"not scored: requires '{required.name}', which is 0")
        return None


def _part_score(name: str, spec: PartSpec, part: Part) -> PartScore:
    return PartScore(
        name=name,
        level=spec.level or name,
        value=part.value,
        weight=spec.weight,
        reason=part.reason,
        applies=part.applies,
    )
