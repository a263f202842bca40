"""Problems of environments of the package verifiers, as `verifiers/NAME`."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from collab.distribution import import_optional
from collab.errors import RecipeError, TaskError
from collab.plugins import check_may_import
from collab.recipe.names import environment_function


def verifiers(random: Random, *, environment: str = "", **options: Any) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    """Yield the tasks of an environment, in its order. Options are those of its taskset.

    The reward part `environment_score` scores an answer. Only environments with a single text
    answer per task are supported.

    Raises:
        RecipeError: no environment is named, or it does not take these options.
        Untrusted: the environment comes from a third-party recipe and is not approved.
        TaskError: the package or the environment is not installed, or it needs more than answers.
    """
    if not environment:
        raise RecipeError("name an environment of verifiers: verifiers/NAME")
    check_may_import(environment_function(environment))
    vf = import_optional(
        "verifiers.v1", f"the suite verifiers/{environment}", "verifiers", TaskError
    )
    try:
        config = vf.taskset_config_type(environment).model_validate({**options, "id": environment})
    except ModuleNotFoundError as error:
        raise TaskError(
            f"the environment '{environment}' of verifiers cannot be imported: {error}; install the"
            " package that has it"
        ) from error
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise RecipeError(f"the environment '{environment}' of verifiers: {reason}") from error
    taskset = vf.load_taskset(config)
    kind = vf.environment_class(environment)
    if kind is not vf.SingleAgentEnv:
        raise _unsupported(environment, f"its own turns or agents, which {kind.__name__} plays")
    if type(taskset).toolsets(taskset.config):
        raise _unsupported(environment, "tools")
    for task in taskset:
        if needs := _unsupported_need(vf, task):
            raise _unsupported(environment, needs)
        data = task.data.model_dump(mode="json")
        if type(task).data_type().model_validate(data) != task.data:
            raise _unsupported(environment, "tasks with state of their own")
        yield {
            "prompt": "\n\n".join(filter(None, [task.data.system_prompt, task.data.prompt_text])),
            "environment": environment,
            "options": options,
            "data": data,
        }


def _unsupported_need(vf: Any, task: Any) -> str:
    """Return what a task or its rewards need in addition to a text answer, or "" for nothing."""
    kind = type(task)
    messages = task.data.prompt if isinstance(task.data.prompt, list) else []
    needed = {
        "a container": kind.NEEDS_CONTAINER,
        "a machine that is set up for each task": kind.setup is not vf.Task.setup,
        "rewards for actions on a machine": kind.finalize is not vf.Task.finalize
        or any(map(_uses_runtime, task.hooks("reward"))),
        "tools": kind.toolsets(task.config),
        "models that judge": task.config.judges,
        "a user who begins": not task.data.prompt_text.strip(),
        "prompts of more than text": any(not isinstance(m.content, str) for m in messages),
        "prompts with answers in them": any(m.role not in ("system", "user") for m in messages),
    }
    return next((reason for reason, is_needed in needed.items() if is_needed), "")


def _uses_runtime(reward: Any) -> bool:
    """Return True if a reward needs the machine that did the task."""
    code = getattr(reward, "__func__", reward).__code__
    return "runtime" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _unsupported(environment: str, needs: str) -> TaskError:
    return TaskError(
        f"the environment '{environment}' of verifiers needs {needs}; a suite can only use"
        " environments that score one text answer"
    )
