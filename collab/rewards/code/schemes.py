"""How the agents' functions work together, for the record: no part of the joint reward."""

from __future__ import annotations

from collab.analysis import classify
from collab.records import Scheme
from collab.rewards.code.structure import function_name
from collab.rewards.context import RewardContext


def schemes(
    context: RewardContext,
    agent: str,
    helper: str,
    function: str = "entry_point",
    helper_function: str = "",
) -> tuple[Scheme, ...]:
    """The cooperation schemes of the joint program, the chosen one first. Options as for `calls`.

    None where the team lacks one of the two agents, or the problem asks for no function.
    """
    fields = {**context.problem.public, **context.problem.hidden}
    if not {agent, helper} <= {*context.artefacts} or "entry_point" not in fields:
        return ()
    found = classify(
        context.joint.text,
        function_name(context, agent, function),
        function_name(context, helper, helper_function),
        context.joint.spans.get(helper, (0, 0)),
    )
    return tuple(Scheme(name=m.name, lines=m.lines, why=m.why) for m in found.matches)
