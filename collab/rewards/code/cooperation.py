"""Reward parts for cooperation: does one agent's function really use another's?

A use must pass two checks: one of the syntax tree (collab.analysis.usage), and one of its effect,
in this module. For the second, the tests run again while the helper returns other values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from collab.analysis import HelperUse, helper_use
from collab.recipe.team import ENTRY_PLACEHOLDER, HELPER_PLACEHOLDER
from collab.rewards.code.structure import function_name
from collab.rewards.context import RewardContext
from collab.threads import run_in_thread

if TYPE_CHECKING:
    from collab.sandbox import Treatment, Values, Verdict


CONTENTS: tuple[Values, ...] = ("once", "other")
"""Replacements of the helper's own types, each in two variants.

They count only if tests are lost both with all numbers and letters set to 0 and with all set to 1.
Otherwise it may matter only which values are equal, or that they cancel out."""
LENGTHS: tuple[Values, ...] = ("longer", "shorter")
"""Replacements of other lengths, in two variants. They count only if tests are lost with all of
them empty."""
OWN: tuple[Values, ...] = ("first", "previous")
"""The helper's own values in the wrong place, for booleans, which have no third value."""
MAX_HANGS = 2
"""Stop after this many runs have reached the time limit."""


Lines = tuple[int, int] | None
"""First and last line of a part of the joint program, or None for all of it."""


async def contribution(
    context: RewardContext, helper: str, lines: Lines = None
) -> tuple[bool, str]:
    """Return whether a test depends on the values of the function `helper` of the joint program,
    and the reason.

    Args:
        lines: where the function is defined.

    Raises:
        RewardError, SandboxError: see `RewardContext.verdict`.
    """
    return await _Runs(context, helper, lines).compare()


class _Runs:
    """Runs one program with different values from the helper, each against a control run."""

    def __init__(self, context: RewardContext, helper: str, lines: Lines) -> None:
        self._context, self._helper, self._lines = context, helper, lines
        self._hung: set[tuple[Values, int, int]] = set()
        """Values, seeds and run numbers of the runs that reached the time limit."""
        self._steady: dict[int, str] = {}
        """Answers of the tests that held both without and with the control, by test number."""

    async def compare(self) -> tuple[bool, str]:
        plain, control = await self._context.verdict(), await self._run("true")
        answers = _answers(plain)
        self._steady = {i: answers[i] for i in _held(control) & _held(plain) & {*answers}}
        if not self._steady:
            return False, "no test passes in every run because of the program's answers"
        without = await self._missing("none") or await self._missing("opaque")
        if not without:
            return False, f"replacing '{self._helper}' loses no test, so it contributed nothing"
        treatment = await self._treatment_that_counts()
        if treatment is None:
            why = "other values of it lose no test by an answer that follows them: none contributed"
            return False, why
        if not await self._happens_again(treatment):
            return False, "different runs lose different tests"
        return True, f"without it {without} of {len(self._steady)} tests are lost"

    async def _treatment_that_counts(self) -> Treatment | None:
        for kinds, matter in ((CONTENTS, self._contents), (LENGTHS, self._lengths)):
            for values in kinds:
                lost = await self._lost(values, 0) and await self._lost(values, 1)
                if lost and await self._differ(values) and await matter():
                    return self._treatment(values, 0)
        return await self._own_that_counts()

    async def _own_that_counts(self) -> Treatment | None:
        first, previous = [await self._lost(values, 0) for values in OWN]
        if len(self._hung) >= MAX_HANGS or not (await self._contents() or await self._lengths()):
            return None
        if any(first[i] != previous[i] for i in first if i in previous):
            return self._treatment("first", 0)
        ones, shifted = await self._lost("ones", 0), await self._lost("shifted", 0)
        if any(lost[i] != shifted[i] for lost in (first, ones) for i in lost if i in shifted):
            return self._treatment("shifted", 0)
        right_elsewhere = {*self._steady.values()}
        for values, lost in zip(OWN, (first, previous), strict=True):
            if right_elsewhere & {*lost.values()}:
                return self._treatment(values, 0)
        return None

    async def _contents(self) -> bool:
        """Return True if the content of the values matters, and not only which are equal or cancel
        out.
        """
        return bool(await self._missing("zeros") and await self._missing("ones"))

    async def _lengths(self) -> bool:
        return bool(await self._missing("empty"))

    async def _differ(self, values: Values) -> bool:
        """Return True if two variants of the changed values lead to different answers."""
        one, two = [_answers(await self._run(values, seed)) for seed in (0, 1)]
        return any(one[i] != two[i] for i in self._steady if i in one and i in two)

    async def _happens_again(self, treatment: Treatment) -> bool:
        control = await self._run("true", run=1)
        again = await self._run(treatment.values, treatment.seed, run=1)
        first = await self._run(treatment.values, treatment.seed)
        return _held(control) >= {*self._steady} and self._lost_in(again) == self._lost_in(first)

    async def _missing(self, values: Values) -> int:
        """Count the tests that fail if the helper returns a useless value, because the caller needs
        it.
        """
        return len({*self._steady} - _held(await self._run(values)))

    async def _lost(self, values: Values, seed: int) -> dict[int, str]:
        if len(self._hung) >= MAX_HANGS:
            return {}
        return self._lost_in(await self._run(values, seed))

    def _lost_in(self, verdict: Verdict) -> dict[int, str]:
        """Return the tests that fail because of a different answer, with that answer."""
        held, answers = _held(verdict), _answers(verdict)
        return {
            i: answers[i]
            for i in self._steady
            if i in answers and i not in held and answers[i] != self._steady[i]
        }

    async def _run(self, values: Values, seed: int = 0, run: int = 0) -> Verdict:
        treatment = self._treatment(values, seed, moved=run > 0)
        verdict = await self._context.verdict(treatment=treatment, run=run)
        if "time_limit" in verdict.flags:
            self._hung.add((values, seed, run))
        return verdict

    def _treatment(self, values: Values, seed: int, *, moved: bool = False) -> Treatment:
        from collab.sandbox import Treatment

        return Treatment(
            function=self._helper, values=values, seed=seed, lines=self._lines, moved=moved
        )


def _held(verdict: Verdict) -> set[int]:
    return {i for i, check in enumerate(verdict.checks) if check.held}


def _answers(verdict: Verdict) -> dict[int, str]:
    """Map the number of each test with an answer to the answer."""
    if not verdict.loaded:
        return {}
    return {i: check.answer for i, check in enumerate(verdict.checks) if check.answer is not None}


async def calls(
    context: RewardContext,
    agent: str = ENTRY_PLACEHOLDER,
    helper: str = HELPER_PLACEHOLDER,
    function: str = "entry_point",
    helper_function: str = "",
) -> tuple[float, str]:
    """The agent's function calls the helper's, and at least one passing test depends on the result.

    Args:
        function: the caller; `entry_point` means the problem's, "" the agent's name.
        helper_function: the function called; "" means the problem's `helper_name` if it has one,
            else the helper agent's name.
    """
    name = function_name(context, helper, helper_function)
    use = await run_in_thread(_use, context, agent, function, name)
    if not use.used:
        return 0.0, use.reason
    verdict = await context.verdict()
    if not verdict.tests.passed:
        return 0.0, f"{use.reason}, but no test passes"
    shown, why = await contribution(context, name, context.joint.spans.get(helper))
    return float(shown), f"{use.reason}{'; ' if shown else ', but '}{why}"


def not_wrapper(
    context: RewardContext,
    agent: str = ENTRY_PLACEHOLDER,
    helper: str = HELPER_PLACEHOLDER,
    function: str = "entry_point",
    helper_function: str = "",
) -> tuple[float, str]:
    """The agent's function is more than `return helper(...)`. Options: see `calls`."""
    name = function_name(context, helper, helper_function)
    use = _use(context, agent, function, name)
    if not use.used:
        return 0.0, use.reason
    if use.wrapper:
        return 0.0, f"it returns the value of '{name}' unchanged"
    return 1.0, f"it does more than forward the value of '{name}'"


def ignores(
    context: RewardContext,
    agent: str = ENTRY_PLACEHOLDER,
    helper: str = HELPER_PLACEHOLDER,
    function: str = "entry_point",
    helper_function: str = "",
) -> tuple[float, str]:
    """The agent's function calls the helper's function and ignores the result. Options: see
    `calls`."""
    use = _use(context, agent, function, function_name(context, helper, helper_function))
    return float(use.called and not use.used), use.reason


def _joined_part(context: RewardContext, agent: str) -> str:
    """Return the agent's code in the joint program, where a join may have renamed copies of the
    helper's function."""
    if agent not in context.joint.spans:
        return context.artifacts[agent]
    first, last = context.joint.spans[agent]
    return "\n".join(context.answer.split("\n")[first - 1 : last])


def _use(context: RewardContext, agent: str, function: str, helper: str) -> HelperUse:
    caller = function_name(context, agent, function)
    return helper_use(_joined_part(context, agent), caller, helper)
