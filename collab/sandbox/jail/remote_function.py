"""The candidate as a test sees it: a function whose every call goes to the worker."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

from . import codec
from .answers import Answers
from .limits import Limits
from .wire import Line


class CandidateError(Exception):
    """Replaces an exception of the program that cannot be raised as itself, or gives the reason for
    a missing answer.
    """


class NoAnswer(CandidateError):
    """The program returned no value: it ended, or its value cannot be transferred."""


class Trouble(BaseException):
    """Raised when the sandbox itself fails. `except Exception` in a test does not catch it."""


class RemoteFunction:
    """The proxy that a test calls instead of the program's function."""

    def __init__(self, line: Line, limits: Limits, tell: Callable[..., None]) -> None:
        self._line, self._limits, self._tell = line, limits, tell
        self.called = False
        self.answers = Answers()

    def ask(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> Any:
        """Call the program's function in the worker, and return its value.

        Raises:
            CandidateError: the program gives no valid answer.
            Exception: the program's own exception.
        """
        if not self.called:
            self.called = True
            self._tell({"called": True})
        call = {
            "id": os.urandom(8).hex(),
            "arguments": self._argument(list(arguments)),
            "keywords": self._argument(keywords),
        }
        if self._line.ended is None and not self._line.quiet():
            # Either the worker is gone, or it sent a frame early. Read on to find out.
            early = self._line.receive()
            if early:
                self._line.end("a frame that was not asked for", "protocol_violation")
        self._line.send(call)
        answer = self._line.receive()
        if answer and answer.get("id") != call["id"]:
            answer = self._line.end("an answer to no question", "protocol_violation")
        return self._take(answer)

    def _argument(self, value: object) -> Any:
        try:
            return codec.encode(value, self._limits.argument_depth)
        except codec.Foreign as error:
            raise self._trouble(
                f"the test passes a value of type {error} to the candidate; "
                "only plain data can cross into the jail"
            ) from error
        except codec.TooDeep as error:
            raise self._trouble(
                f"the test passes a value nested deeper than {2 * self._limits.depth} to the "
                "candidate; raise sandbox.depth"
            ) from error

    def _trouble(self, message: str) -> Trouble:
        # Report it at once: a bare `except` in the test would swallow the exception.
        self._tell({"trouble": message})
        return Trouble(message)

    def _take(self, answer: dict[str, Any]) -> Any:
        self.answers.note(answer)
        if "value" in answer:
            try:
                return codec.decode(answer["value"], self._limits.depth)
            except codec.OverLimit as error:
                self._over(str(error))
            except (codec.Undecodable, RecursionError) as error:
                self._line.end(f"an answer that is not a value: {error}", "protocol_violation")
        elif "raised" in answer:
            raise self._error(answer)
        elif "foreign" in answer:
            self._tell({"flag": "non_builtin_value"})
            raise NoAnswer(f"a value of type {answer['foreign']!s:.100} is not plain data")
        elif "over" in answer:
            self._over(f"{answer['over']!s:.100}")
        elif self._line.ended is None:
            self._line.end("an answer without a value", "protocol_violation")
        raise NoAnswer(self._line.ended)

    def _over(self, reason: str) -> NoReturn:
        self._tell({"flag": "answer_limit"})
        raise NoAnswer(reason)

    def _error(self, answer: dict[str, Any]) -> Exception:
        name, message = str(answer["raised"])[:100], str(answer.get("message", ""))[:400]
        if answer.get("memory") is True:
            self._tell({"flag": "memory_limit"})
        if answer.get("builtin") is True and name in codec.CROSSING:
            return _reborn(codec.CROSSING[name], message)
        return CandidateError(f"{name}: {message}" if message else name)


def _reborn(kind: type[Exception], message: str) -> Exception:
    try:
        return kind(message)
    except TypeError:  # e.g. UnicodeDecodeError, which needs more arguments
        return CandidateError(f"{kind.__name__}: {message}")
