"""Feedback sources: opened from a recipe, queried together after a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, assert_never

from collab.errors import CollabError, FeedbackError, RecipeError, convert_error
from collab.feedback.plain import Outcome, OwnHistory, Plugin, Solved, Source, entry_point
from collab.recipe.feedback import (
    ExecutionFeedbackSpec,
    ExpertFeedbackSpec,
    FeedbackSpec,
    PluginFeedbackSpec,
    SelfFeedbackSpec,
    SolvedFeedbackSpec,
    StaticFeedbackSpec,
)
from collab.recipe.model import ModelSpec
from collab.records import Failure, Feedback, Problem, failure_of

if TYPE_CHECKING:
    from collab.models import Model
    from collab.sandbox import Sandbox

OpenModel = Callable[[ModelSpec], "Model"]


def open_sources(
    specs: Sequence[FeedbackSpec], *, sandbox: Sandbox, open_model: OpenModel
) -> list[Source]:
    """Open the sources that a recipe lists, and return them in order.

    Sources do not close the models that `open_model` returns.

    Raises:
        RecipeError, FeedbackUnavailable, ModelUnavailable: a source cannot work.
    """
    return [_open(spec, sandbox, open_model) for spec in specs]


def _open(spec: FeedbackSpec, sandbox: Sandbox, open_model: OpenModel) -> Source:
    from collab.feedback.execution import Execution
    from collab.feedback.expert import Expert
    from collab.feedback.static import Static

    match spec:
        case SelfFeedbackSpec():
            return OwnHistory()
        case StaticFeedbackSpec():
            return Static(spec)
        case ExecutionFeedbackSpec():
            return Execution(spec, sandbox)
        case SolvedFeedbackSpec():
            return Solved()
        case ExpertFeedbackSpec():
            return Expert(spec, open_model(spec.model))
        case PluginFeedbackSpec():
            return Plugin(spec)
    assert_never(spec)


def check_sources(specs: Sequence[FeedbackSpec], problem: Problem) -> None:
    """Refuse sources that cannot give feedback on any answer to a problem.

    Sources that are not `required` pass, since an episode continues without them.

    Raises:
        RecipeError: a source reads programs, and a problem does not ask for any.
    """
    for spec in specs:
        try:
            if spec.required and spec.reads_programs:
                entry_point(problem, spec.source)
        except FeedbackError as error:
            raise RecipeError(str(error)) from error


async def gather(
    sources: Sequence[Source], specs: Sequence[FeedbackSpec], outcome: Outcome
) -> tuple[dict[str, tuple[Feedback, ...]], tuple[Failure, ...]]:
    """Query all sources, and return the feedback per agent in the sources' order, and the failures.

    Raises:
        CollabError: the first failure of a required source, of its own type.
    """
    answers = await asyncio.gather(
        *(_ask(source, spec, outcome) for source, spec in zip(sources, specs, strict=True))
    )
    feedback: dict[str, tuple[Feedback, ...]] = dict.fromkeys(outcome.agents, ())
    failures = []
    for spec, answer in zip(specs, answers, strict=True):
        if isinstance(answer, CollabError):
            if spec.required:
                raise answer
            failures.append(failure_of(answer))
            continue
        for agent, item in answer.items():
            feedback[agent] += (item,)
    return feedback, tuple(failures)


async def _ask(
    source: Source, spec: FeedbackSpec, outcome: Outcome
) -> dict[str, Feedback] | CollabError:
    timeout = asyncio.timeout(spec.seconds)
    try:
        async with timeout:
            return await source.give_feedback(outcome)
    except CollabError as error:
        return error
    except Exception as error:
        if timeout.expired():
            return FeedbackError(
                f"feedback '{source.name}' took longer than {spec.seconds:g} s (its 'seconds')"
            )
        return convert_error(error, FeedbackError, f"feedback '{source.name}'")
