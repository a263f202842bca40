"""The errors of collab, named by the boundary that was crossed.

Messages contain the value, the limit and the remedy. Within an episode, an error becomes data (a
`Failure` in the record, made by `failure_of`). Outside, it ends the command with `exit_status`.
"""

from __future__ import annotations

import difflib
import os
import re
import traceback
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import ClassVar


class CollabError(Exception):
    """Base class of the errors that collab raises on purpose."""

    boundary: ClassVar[str] = "collab"
    exit_status: ClassVar[int] = 1
    trace: str | None = None
    """Traceback of the foreign exception behind this error, if there was one."""
    summary: str | None = None
    """Reason without text of users, models or services, for logs."""


class RecipeError(CollabError):
    """A recipe, setting or option is wrong, before any work is done."""

    boundary = "recipe"
    exit_status = 2


def error_class(name: str) -> type[CollabError] | None:
    """Return the class of a recorded failure's type, or None if it is not one of these errors."""
    kind = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, CollabError) else None


MAX_LISTED_NAMES = 12
"""Maximum number of known names in a message, if a command lists them all."""
LIST_COMMANDS = {"team": "teams", "suite": "tasks", "trainer": "trainers"}
"""Subcommands that list the names of each kind."""


class UnknownName(RecipeError):
    """A name of this `kind` that is not among the `known` ones. A kind may be `part of REWARD`."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, remedy: str = "") -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        noun, *owner = re.split(r" (?=(?:of|in|for) )", kind, maxsplit=1)
        message = " ".join([f"unknown {noun} {name!r}", *owner])
        close = nearest_name(name, self.known)
        if close:
            message += f"; did you mean {close!r}?"
        elif len(self.known) > MAX_LISTED_NAMES and kind in LIST_COMMANDS:
            message += f"; `collab {LIST_COMMANDS[kind]}` lists all {len(self.known)} {kind}s"
        elif self.known:
            message += f"; known: {', '.join(self.known)}"
        super().__init__(f"{message} {remedy}".rstrip())


class Untrusted(RecipeError):
    """A third-party recipe or folder would run code that nobody has approved."""


class TaskError(CollabError):
    """A suite of tasks cannot be read, or lacks what was selected."""

    boundary = "task"
    exit_status = 2


class Unfit(TaskError):
    """A published problem that cannot be run here, with the reason."""


class ModelError(CollabError):
    """A model gave no usable answer. Subclasses say why."""

    boundary = "model"

    def __init__(self, message: str, summary: str | None = None) -> None:
        super().__init__(message)
        self.summary = summary


class ModelUnavailable(ModelError):
    """A model cannot be reached, downloaded or loaded."""

    exit_status = 2


class ModelDenied(ModelUnavailable):
    """A service refuses every request for a model: because of its key, its quota or its name."""


class ModelRefused(ModelError):
    """A model or its service declined a request."""


class ModelTimeout(ModelError):
    """A model did not answer, or a download stalled, within its time limit."""


class ContextOverflow(ModelError):
    """A prompt and its new tokens exceed the model's context."""


class AgentError(CollabError):
    """An agent's template, parser, join or harness failed."""

    boundary = "agent"


class ToolUnavailable(AgentError):
    """A tool's server does not start, or its package is missing."""

    exit_status = 2


class SandboxError(CollabError):
    """The sandbox itself failed, not the program in it."""

    boundary = "sandbox"


class SandboxUnavailable(SandboxError):
    """Programs cannot be isolated on this machine."""

    exit_status = 2


class EnvironmentFailed(CollabError):
    """A game broke its interface, raised an exception or took too long."""

    boundary = "environment"


class RewardError(CollabError):
    """A reward function raised, took too long, or returned no valid value."""

    boundary = "reward"


class FeedbackError(CollabError):
    """A source of feedback failed."""

    boundary = "feedback"


class FeedbackUnavailable(FeedbackError):
    """A source of feedback cannot work here, e.g. because its tool is not installed."""

    exit_status = 2


class BudgetExceeded(CollabError):
    """An episode, or a request to a service, would exceed its budget."""

    boundary = "budget"


class TrainingError(CollabError):
    """A training cannot start or continue."""

    boundary = "training"


class RecordError(CollabError):
    """The files of a run cannot be read or written."""

    boundary = "record"
    exit_status = 2


MAX_COMPARED_NAMES, MAX_COMPARED_LENGTH = 500, 60
"""Maximum number of known names to compare with an unknown one, and of characters of each."""


def nearest_name(name: str, known: Iterable[str], *, cutoff: float = 0.65) -> str | None:
    """Return the known name most like `name`, or None if none is close.

    Long names are not compared, nor are names after the first 500, because that takes too long.

    Args:
        cutoff: the least similarity of a close name, from 0 to 1 (difflib's ratio).
    """
    if len(name) > MAX_COMPARED_LENGTH:
        return None
    short = (other for other in known if len(other) <= MAX_COMPARED_LENGTH)
    matches = difflib.get_close_matches(
        name, list(islice(short, MAX_COMPARED_NAMES)), n=1, cutoff=cutoff
    )
    return matches[0] if matches else None


def convert_error(error: BaseException, boundary: type[CollabError], what: str = "") -> CollabError:
    """Return `error` as an error of the type `boundary`. An error of collab is returned unchanged.

    The message names the file and the line of the user's code that raised it, and `what` it was
    called for. `trace` holds the traceback, or the end of a long one.
    """
    if isinstance(error, CollabError):
        return error
    attributed = boundary(f"{what}: {format_error(error)}" if what else format_error(error))
    attributed.trace = "".join(traceback.format_exception(error))[-_MAX_TRACE_CHARACTERS:]
    attributed.__cause__ = error
    return attributed


def format_error(error: BaseException) -> str:
    """Format an exception on one line, e.g. `rewards.py:2: KeyError: 'oops'`.

    The position is the innermost line of a user's file. Other exceptions have none.
    """
    lines = [
        f"{_relative_path(frame.filename)}:{frame.lineno}: "
        for frame in traceback.extract_tb(_origin(error).__traceback__)
        if _is_user_file(frame.filename)
    ]
    try:
        text = str(error)
    except Exception:  # a user's exception may fail here too
        text = "it has no text, because its __str__ raises"
    return f"{lines[-1] if lines else ''}{type(error).__name__}{': ' if text else ''}{text}"


_COLLAB_FOLDER = str(Path(__file__).parent) + os.sep
_STDLIB_FOLDER = str(Path(os.__file__).parent) + os.sep
_MAX_TRACE_CHARACTERS = 20_000


def _is_user_file(file: str) -> bool:
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not (installed or file.startswith(("<", _COLLAB_FOLDER, _STDLIB_FOLDER)))


def _origin(error: BaseException) -> BaseException:
    """Return the exception in the chain of causes that passed through a user's file, otherwise the
    first."""
    links = [error]
    while (cause := links[-1].__cause__) is not None and cause not in links:
        links.append(cause)
    for link in links:
        if any(_is_user_file(frame.filename) for frame in traceback.extract_tb(link.__traceback__)):
            return link
    return error


def _relative_path(file: str) -> str:
    """Return a path relative to the current folder if it is below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
