"""Reward parts for cooperation: whether one agent's function really uses another's.

A use counts twice over: on the syntax tree (collab.analysis.usage), and by its consequence. The
tests run again with the helper replaced (collab.rewards.replacements); when no test that held is
lost, the helper contributed nothing, however its call looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from collab.analysis import HelperUse, helper_use
from collab.plugins import in_thread
from collab.recipe.roles import ENTRY, HELPER
from collab.rewards.code import function_name
from collab.rewards.context import RewardContext
from collab.rewards.replacements import changed, stubs

if TYPE_CHECKING:
    from collab.judge import Verdict


async def calls(
    context: RewardContext,
    agent: str = ENTRY,
    helper: str = HELPER,
    function: str = "entry_point",
    helper_function: str = "",
) -> tuple[float, str]:
    """The agent's function calls the helper's, and some test that holds depends on it.

    Args:
        function: the caller; `entry_point` stands for the problem's, "" for the agent's name.
        helper_function: the function called; "" stands for the helper agent's name.
    """
    name = function_name(context, helper, helper_function)
    use = await in_thread(_use, context, agent, function, name)
    if not use.used:
        return 0.0, use.reason
    verdict = await context.verdict()
    if not verdict.tests.passed:
        return 0.0, f"{use.reason}, but no test holds"
    source = context.artefacts[helper]
    without = await _lost_with(context, helper, stubs(source, name))
    if not without:
        return 0.0, f"'{name}' is called, but replacing it loses no test: it contributed nothing"
    if not await _lost_with(context, helper, changed(source, name)):
        return 0.0, f"'{name}' is called, but other values of it lose no test: none contributed"
    return 1.0, f"{use.reason}; without it {without} of {verdict.tests.passed} tests are lost"


def not_wrapper(
    context: RewardContext,
    agent: str = ENTRY,
    helper: str = HELPER,
    function: str = "entry_point",
    helper_function: str = "",
) -> tuple[float, str]:
    """The agent's function is more than `return helper(...)`. Options as for `calls`."""
    name = function_name(context, helper, helper_function)
    use = _use(context, agent, function, name)
    if not use.used:
        return 0.0, use.reason
    if use.wrapper:
        return 0.0, f"all it returns is the value of '{name}', unchanged"
    return 1.0, f"it does more than forward the value of '{name}'"


def ignores(
    context: RewardContext,
    agent: str = ENTRY,
    helper: str = HELPER,
    function: str = "entry_point",
    helper_function: str = "",
) -> tuple[float, str]:
    """The agent's function calls the helper's and drops its value. Options as for `calls`."""
    use = _use(context, agent, function, function_name(context, helper, helper_function))
    return float(use.called and not use.used), use.reason


def _use(context: RewardContext, agent: str, function: str, helper: str) -> HelperUse:
    caller = function_name(context, agent, function)
    return context.once(
        (helper_use, agent, caller, helper),
        lambda: helper_use(context.artefacts[agent], caller, helper),
    )


async def _lost_with(context: RewardContext, helper: str, sources: tuple[str, ...]) -> int:
    """How many tests are lost with the first of `sources` in the helper's place that loses any."""
    verdict = await context.verdict()
    for source in sources:
        lost = _lost(verdict, await context.verdict({**context.artefacts, helper: source}))
        if lost:
            return lost
    return 0


def _lost(verdict: Verdict, without: Verdict) -> int:
    """How many of the tests that held no longer do."""
    held = [check.held for check in without.checks]
    held += [False] * (len(verdict.checks) - len(held))
    return sum(check.held and not still for check, still in zip(verdict.checks, held, strict=False))
