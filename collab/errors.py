"""The errors of collab, named by the boundary that was crossed.

    CollabError
    ├── RecipeError            what the user wrote: a recipe, a name, an option
    │   └── UnknownName        a name that is not known, with the nearest that is
    ├── TaskError              a suite that cannot be read, a problem that is not whole
    ├── ModelError             a model that cannot answer
    │   ├── ModelUnavailable   not installed, not found, no key, wrong name
    │   ├── ModelRefused       the model declined, or its server rejected the request
    │   ├── ModelTimeout       no answer within the limit
    │   └── ContextOverflow    the prompt is longer than the model's context
    ├── AgentError             a prompt template, parser or join that fails
    ├── JudgeError             our own trouble in running a program, never the program's
    │   └── JudgeUnavailable   this system cannot isolate a program
    ├── RewardError            a reward part that raises, blocks or is not a finite number
    ├── FeedbackError          a feedback source that fails
    │   └── FeedbackUnavailable    a tool that a source needs is not installed
    ├── BudgetExceeded         a limit on turns, tokens, seconds or money was reached
    ├── TrainingError          a training run that cannot go on
    └── RecordError            a run folder that cannot be read or written

A message names the value, the limit and the remedy. Within an episode an error is data (a
`Failure` in the record, made by `failure_of`); outside it ends the command with `exit_status`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class CollabError(Exception):
    """Base of every error that collab raises on purpose."""

    boundary: ClassVar[str] = "collab"
    exit_status: ClassVar[int] = 1


class RecipeError(CollabError):
    boundary = "recipe"
    exit_status = 2


class UnknownName(RecipeError):
    """A name of some `kind` that is not among the `known` ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, remedy: str = "") -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        message = f"unknown {kind} {name!r}"
        close = nearest(name, self.known)
        if close:
            message += f"; did you mean {close!r}?"
        elif self.known:
            message += f"; known: {', '.join(self.known)}"
        super().__init__(f"{message} {remedy}".rstrip())


class TaskError(CollabError):
    boundary = "task"
    exit_status = 2


class ModelError(CollabError):
    boundary = "model"


class ModelUnavailable(ModelError):
    exit_status = 2


class ModelRefused(ModelError):
    pass


class ModelTimeout(ModelError):
    pass


class ContextOverflow(ModelError):
    pass


class AgentError(CollabError):
    boundary = "agent"


class JudgeError(CollabError):
    boundary = "judge"


class JudgeUnavailable(JudgeError):
    exit_status = 2


class RewardError(CollabError):
    boundary = "reward"


class FeedbackError(CollabError):
    boundary = "feedback"


class FeedbackUnavailable(FeedbackError):
    exit_status = 2


class BudgetExceeded(CollabError):
    boundary = "budget"


class TrainingError(CollabError):
    boundary = "training"


class RecordError(CollabError):
    boundary = "record"
    exit_status = 2


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when none is close."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def attribute(error: Exception, boundary: type[CollabError]) -> CollabError:
    """Give an escaping `error` to the `boundary` it crossed; our own errors keep theirs."""
    if isinstance(error, CollabError):
        return error
    attributed = boundary(f"{type(error).__name__}: {error}")
    attributed.__cause__ = error
    return attributed
