"""From a joint action to its joint reward: parts in order, gates, requirements, the maximum."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from collab.agents.joins import Joint
from collab.analysis import SCHEMES
from collab.plugins import in_thread
from collab.recipe.reward import PartSpec, RewardSpec
from collab.recipe.roles import Roles, roles_of
from collab.records import PartScore, Problem, Scheme, Score
from collab.rewards import cooperation
from collab.rewards.context import Part, RewardContext
from collab.rewards.parts import Budget, PartFunction, open_part
from collab.rewards.schemes import schemes

if TYPE_CHECKING:
    from collab.sandbox import Check, Sandbox, Verdict

_MAX_FAILURES = 5
_ANYBODY = open_part("calls", PartSpec(use="calls"))


class Scorer:
    """A reward, ready to score joint actions; several may be under way at the same time.

    Raises:
        RecipeError: on construction: a part that is not known, an option that it does not take.
    """

    def __init__(
        self, spec: RewardSpec, sandbox: Sandbox | None, roles: Roles | None = None
    ) -> None:
        """`roles`: by default every agent contributes, and `main` or the last one has the entry."""
        self.spec, self._sandbox, self._roles = spec, sandbox, roles
        self._parts = {name: open_part(name, part) for name, part in spec.parts.items()}

    async def score(
        self, problem: Problem, joint: Joint, artefacts: Mapping[str, str], agents: Sequence[str]
    ) -> Score:
        """The joint reward of `joint`, which the artefacts of `agents` were joined to.

        `agents` are in the team's order. `artefacts` holds those of other agents too, for parts
        that ask for them.

        Raises:
            RewardError: a part that raises, takes too long, or gives no number from 0 to 1.
            SandboxError: the sandbox itself failed.
        """
        started = time.perf_counter()
        roles = self._roles.among(agents) if self._roles else roles_of(agents)
        ordered = {**dict.fromkeys(agents, ""), **artefacts}
        context = RewardContext(problem, joint, ordered, self._sandbox, roles)
        scoring = _Scoring(self.spec, self._parts, context)
        try:
            parts = [await scoring.part(name) for name in self.spec.parts]
            verdict = await self._verdict(problem, context)
            shown = await in_thread(self._schemes, context)
        finally:
            context.close()
        solved = scoring.solved
        if solved is None and verdict is not None:
            solved = verdict.passed
        return Score(
            reward=math.fsum(part.points for part in parts),
            maximum=math.fsum(part.weight for part in parts if part.applies and part.weight > 0),
            solved=solved,
            tests=verdict.tests if verdict else None,
            parts=tuple(parts),
            flags=verdict.flags if verdict else (),
            failures=_failures(verdict) if verdict else (),
            isolation=verdict.isolation if verdict else None,
            schemes=shown,
            seconds=time.perf_counter() - started,
        )

    async def _verdict(self, problem: Problem, context: RewardContext) -> Verdict | None:
        """The joint program's verdict, whether or not a gate kept some part from asking for it.

        So `solved` and `tests` say what the program does, and the reward what it is worth.
        """
        if self._sandbox is not None and "test" in problem.hidden:
            return await context.verdict()
        return context.known_verdict

    def _schemes(self, context: RewardContext) -> tuple[Scheme, ...]:
        """How the agents work together: those that `calls` is about, where the reward has it."""
        about = next((p for p in self._parts.values() if p.function is cooperation.calls), _ANYBODY)
        if about.lacks(context.roles, context.artefacts):
            return ()
        calls = about.calls(context.roles).values()
        found = [scheme for options in calls for scheme in schemes(context, **options)]
        return tuple(sorted(found, key=lambda scheme: SCHEMES.index(scheme.name)))


class _Scoring:
    """The parts of one score, under way."""

    def __init__(
        self, spec: RewardSpec, functions: Mapping[str, PartFunction], context: RewardContext
    ) -> None:
        self._spec, self._functions, self._context = spec, functions, context
        self._done: dict[str, PartScore] = {}
        self._budget = Budget(spec.seconds, context)
        self.closed: str | None = None
        """The gate at which scoring stopped."""
        self._said: list[bool] = []

    @property
    def solved(self) -> bool | None:
        """Whether every part that can tell says that the task is solved; None where none can."""
        return all(self._said) if self._said else None

    async def part(self, name: str) -> PartScore:
        spec = self._spec.parts[name]
        found = self._without_scoring(name)
        if found is None:
            found = await self._functions[name].evaluate(self._context, self._budget)
        score = PartScore(
            name=name,
            level=spec.level or name,
            value=found.value,
            weight=spec.weight,
            reason=found.reason,
            applies=found.applies,
        )
        self._done[name] = score
        said = spec.solves and found.value == 1.0 if found.solved is None else found.solved
        if found.applies and (spec.solves or found.solved is not None):
            self._said.append(said)
        passes = score.value > 0 if found.passes is None else found.passes
        if spec.gate and score.applies and not passes and self.closed is None:
            self.closed = name
        return score

    def _without_scoring(self, name: str) -> Part | None:
        """The part's value where something settles it before its function is called."""
        spec = self._spec.parts[name]
        lacks = self._functions[name].lacks(self._context.roles, self._context.artefacts)
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


def _failures(verdict: Verdict) -> tuple[str, ...]:
    """For people: the first tests that did not hold, or why the program did not run."""
    told = [_describe(check) for check in verdict.checks if not check.held][:_MAX_FAILURES]
    return tuple([verdict.error, *told] if verdict.error else told)


def _describe(check: Check) -> str:
    place = f"line {check.line}: {check.source}"
    if check.error is not None:
        return f"{place}: {check.error}"
    if check.expected is None and check.got is None:
        return f"{place}: does not hold"
    return f"{place}: expected {check.expected}, got {check.got}"
