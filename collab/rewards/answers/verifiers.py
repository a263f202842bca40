"""Answers to tasks of an environment of verifiers, scored by its own rewards."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from collab.distribution import install
from collab.errors import RewardError
from collab.plugins import check_module_free
from collab.recipe.references import environment_function
from collab.rewards.context import RewardContext


def environment_score(
    context: RewardContext, *, minimum: float = 0.0, maximum: float | None = None, agent: str = ""
) -> tuple[float, str]:
    """What the rewards of the problem's environment give the answer, as a share of the maximum.

    Args:
        minimum: the sum of rewards that is worth 0.
        maximum: the sum that is worth 1; None: the sum of all weights above 0.
        agent: whose artefact; "" for the joint one.

    Raises:
        RewardError: the package is not installed; or a sum that is not between the two.
        Untrusted: a recipe from elsewhere names the environment, and there is no yes.
    """
    text = context.artefacts[agent] if agent else context.joint.text
    hidden = context.problem.hidden
    task = _task(context.field("environment"), hidden.get("options") or {}, hidden["data"])
    most = maximum if maximum is not None else _most(task)
    trace = _trace(task, context.field("prompt"), text)
    asyncio.run(task.score(trace))
    given = {name: reward for name, reward in trace.rewards.items() if reward is not None}
    total = math.fsum(reward.value for reward in given.values())
    if not (math.isfinite(total) and minimum <= total <= most and minimum < most):
        raise RewardError(
            f"the environment gives {total:g}, which is not between {minimum:g} and {most:g}; set"
            " task.reward.parts.NAME.options.minimum and maximum to what it gives at most"
        )
    told = ", ".join(f"{name} {reward.score:g}" for name, reward in given.items())
    return (total - minimum) / (most - minimum), f"{total:g} of {most:g}: {told}"


def _task(environment: str, options: dict[str, Any], data: dict[str, Any]) -> Any:
    """The task that a row was made of."""
    check_module_free("environment", environment_function(environment))
    vf = _package(environment)
    config = vf.taskset_config_type(environment).model_validate({**options, "id": environment})
    kind = vf.task_type(environment)
    return kind(kind.data_type().model_validate(data), config.task)


def _package(environment: str) -> Any:
    try:
        import verifiers.v1 as vf  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise RewardError(
            f"the suite verifiers/{environment} needs the package verifiers, 0.4; remedy:"
            f" {install('verifiers')}"
        ) from error
    return vf


def _most(task: Any) -> float:
    weights = [getattr(reward, "_vf_weight", 1.0) for reward in task.hooks("reward")]
    return math.fsum(weight for weight in weights if weight > 0)


def _trace(task: Any, prompt: str, text: str) -> Any:
    """The record of one question and its answer, as verifiers keeps it."""
    from verifiers import v1 as vf  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from verifiers.v1.state import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        state_cls,
    )

    asked = vf.MessageNode(message=vf.UserMessage(content=prompt))
    answered = vf.MessageNode(parent=0, message=vf.AssistantMessage(content=text), sampled=True)
    return vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=state_cls(type(task))(),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        nodes=[asked, answered],
        is_completed=True,
        ok=True,
    )
