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
    from collab.sandbox import Values, Verdict


CONTENT_VALUES: tuple[Values, ...] = ("once", "other")
"""Replacements of the helper's own types, each in two variants.

They count only if tests are lost both with all numbers and letters set to 0 and with all set to 1.
Otherwise it may matter only which values are equal, or that they cancel out."""
LENGTH_VALUES: tuple[Values, ...] = ("longer", "shorter")
"""Replacements of other lengths, in two variants. They count only if tests are lost with all of
them empty."""
OWN_VALUES: tuple[Values, ...] = ("first", "previous")
"""The helper's own values in the wrong place, for booleans, which have no third value."""
MAX_TIMEOUTS = 2
"""Stop after this many runs have reached the time limit."""


LineRange = tuple[int, int] | None
"""First and last line of a part of the joint program, or None for all of it."""


async def contribution(
    context: RewardContext, helper: str, lines: LineRange = None
) -> tuple[bool, str]:
    """Return whether a test depends on the values of the function `helper` of the joint program,
    and the reason.

    Args:
        lines: where the function is defined.

    Raises:
        RewardError, SandboxError: see `RewardContext.verdict`.
    """
    return await _ContributionCheck(context, helper, lines).compare()


class _ContributionCheck:
    """Runs one program with different values from the helper, each against a control run."""

    def __init__(self, context: RewardContext, helper: str, lines: LineRange) -> None:
        self._context, self._helper, self._lines = context, helper, lines
        self._timed_out: set[tuple[Values, int, int]] = set()
        """Values, seeds and run numbers of the runs that reached the time limit."""
        self._stable: dict[int, str] = {}
        """Answers of the tests that held both without and with the control, by test number."""

    async def compare(self) -> tuple[bool, str]:
        plain, control = await self._context.verdict(), await self._run("true")
        answers = _answers_by_test(plain)
        steady = _passed_tests(control) & _passed_tests(plain) & {*answers}
        self._stable = {i: answers[i] for i in steady}
        if not self._stable:
            return False, "no test passes in every run because of the program's answers"
        without = await self._count_failures("none") or await self._count_failures("opaque")
        if not without:
            return False, f"replacing '{self._helper}' loses no test, so it contributed nothing"
        values = await self._find_values()
        if values is None:
            why = "other values of it lose no test by an answer that follows them: none contributed"
            return False, why
        if not await self._is_repeatable(values):
            return False, "different runs lose different tests"
        return True, f"without it {without} of {len(self._stable)} tests are lost"

    async def _find_values(self) -> Values | None:
        """Return other values of the helper that lose a test by an answer that follows them."""
        for kinds, is_relevant in (
            (CONTENT_VALUES, self._contents_matter),
            (LENGTH_VALUES, self._lengths_matter),
        ):
            for values in kinds:
                lost = await self._lost_answers(values, 0) and await self._lost_answers(values, 1)
                if lost and await self._variants_differ(values) and await is_relevant():
                    return values
        return await self._find_own_values()

    async def _find_own_values(self) -> Values | None:
        first, previous = [await self._lost_answers(values, 0) for values in OWN_VALUES]
        if len(self._timed_out) >= MAX_TIMEOUTS:
            return None
        if not (await self._contents_matter() or await self._lengths_matter()):
            return None
        if any(first[i] != previous[i] for i in first if i in previous):
            return "first"
        ones, shifted = await self._lost_answers("ones", 0), await self._lost_answers("shifted", 0)
        if any(lost[i] != shifted[i] for lost in (first, ones) for i in lost if i in shifted):
            return "shifted"
        right_elsewhere = {*self._stable.values()}
        for values, lost in zip(OWN_VALUES, (first, previous), strict=True):
            if right_elsewhere & {*lost.values()}:
                return values
        return None

    async def _contents_matter(self) -> bool:
        """Return True if the content of the values matters, and not only which are equal or cancel
        out.
        """
        return bool(await self._count_failures("zeros") and await self._count_failures("ones"))

    async def _lengths_matter(self) -> bool:
        return bool(await self._count_failures("empty"))

    async def _variants_differ(self, values: Values) -> bool:
        """Return True if two variants of the changed values lead to different answers."""
        one, two = [_answers_by_test(await self._run(values, seed)) for seed in (0, 1)]
        return any(one[i] != two[i] for i in self._stable if i in one and i in two)

    async def _is_repeatable(self, values: Values) -> bool:
        control = await self._run("true", run=1)
        again, first = await self._run(values, run=1), await self._run(values)
        same = self._answers_lost_in(again) == self._answers_lost_in(first)
        return same and _passed_tests(control) >= {*self._stable}

    async def _count_failures(self, values: Values) -> int:
        """Count the tests that fail if the helper returns a useless value, because the caller needs
        it.
        """
        return len({*self._stable} - _passed_tests(await self._run(values)))

    async def _lost_answers(self, values: Values, seed: int) -> dict[int, str]:
        if len(self._timed_out) >= MAX_TIMEOUTS:
            return {}
        return self._answers_lost_in(await self._run(values, seed))

    def _answers_lost_in(self, verdict: Verdict) -> dict[int, str]:
        """Return the tests that fail because of a different answer, with that answer."""
        held, answers = _passed_tests(verdict), _answers_by_test(verdict)
        return {
            i: answers[i]
            for i in self._stable
            if i in answers and i not in held and answers[i] != self._stable[i]
        }

    async def _run(self, values: Values, seed: int = 0, run: int = 0) -> Verdict:
        from collab.sandbox import Treatment

        treatment = Treatment(
            function=self._helper, values=values, seed=seed, lines=self._lines, moved=run > 0
        )
        verdict = await self._context.verdict(treatment=treatment, run=run)
        if "time_limit" in verdict.flags:
            self._timed_out.add((values, seed, run))
        return verdict


def _passed_tests(verdict: Verdict) -> set[int]:
    return {i for i, check in enumerate(verdict.checks) if check.held}


def _answers_by_test(verdict: Verdict) -> dict[int, str]:
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
    use = await run_in_thread(_find_use, context, agent, function, name)
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
    use = _find_use(context, agent, function, name)
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
    use = _find_use(context, agent, function, function_name(context, helper, helper_function))
    return float(use.called and not use.used), use.reason


def _find_use(context: RewardContext, agent: str, function: str, helper: str) -> HelperUse:
    code = context.artifacts[agent]
    if agent in context.joint.spans:  # a join may have renamed copies of the helper's function
        first, last = context.joint.spans[agent]
        code = "\n".join(context.answer.split("\n")[first - 1 : last])
    return helper_use(code, function_name(context, agent, function), helper)
