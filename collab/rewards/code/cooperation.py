"""Reward parts for cooperation: whether one agent's function really uses another's.

A use counts twice over: on the syntax tree (collab.analysis.usage), and by its consequence, which
collab.rewards.code.replacements measures: the tests run again while the helper gives other values.
"""

from __future__ import annotations

from collab.analysis import HelperUse, helper_use
from collab.plugins import in_thread
from collab.recipe.roles import ENTRY, HELPER
from collab.rewards.code.replacements import contribution
from collab.rewards.code.structure import function_name
from collab.rewards.context import RewardContext


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
        helper_function: the function called; "" stands for the problem's `helper_name`, where it
            has one, else for the helper agent's name.
    """
    name = function_name(context, helper, helper_function)
    use = await in_thread(_use, context, agent, function, name)
    if not use.used:
        return 0.0, use.reason
    verdict = await context.verdict()
    if not verdict.tests.passed:
        return 0.0, f"{use.reason}, but no test holds"
    found = await contribution(context, name, context.joint.spans.get(helper))
    return float(found.shown), f"{use.reason}{'; ' if found.shown else ', but '}{found.reason}"


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
