"""The candidate as a test sees it: a function whose every call goes to the worker."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from . import codec
from .answers import Answers
from .limits import Limits
from .wire import WorkerConnection


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

    def __init__(
        self, worker: WorkerConnection, limits: Limits, report: Callable[..., None]
    ) -> None:
        self._worker, self._limits, self._report = worker, limits, report
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
            self._report({"called": True})
        call = {
            "id": os.urandom(8).hex(),
            "arguments": self._encode_argument(list(arguments)),
            "keywords": self._encode_argument(keywords),
        }
        if self._worker.ended is None and not self._worker.is_quiet():
            # Either the worker is gone, or it sent a frame early. Read on to find out.
            early = self._worker.receive()
            if early:
                self._worker.end("a frame that was not asked for", "protocol_violation")
        self._worker.send(call)
        answer = self._worker.receive()
        if answer and answer.get("id") != call["id"]:
            answer = self._worker.end("an answer to no question", "protocol_violation")
        return self._read_answer(answer)

    def _encode_argument(self, value: object) -> Any:
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
        self._report({"trouble": message})
        return Trouble(message)

    def _read_answer(self, answer: dict[str, Any]) -> Any:
        self.answers.note(answer)
        if "value" in answer:
            try:
                return codec.decode(answer["value"], self._limits.depth)
            except codec.OverLimit as error:
                self._refuse_over_limit(str(error))
            except (codec.Undecodable, RecursionError) as error:
                self._worker.end(f"an answer that is not a value: {error}", "protocol_violation")
        elif "raised" in answer:
            raise self._make_exception(answer)
        elif "foreign" in answer:
            self._report({"flag": "non_builtin_value"})
            raise NoAnswer(f"a value of type {answer['foreign']!s:.100} is not plain data")
        elif "over" in answer:
            self._refuse_over_limit(f"{answer['over']!s:.100}")
        elif self._worker.ended is None:
            self._worker.end("an answer without a value", "protocol_violation")
        raise NoAnswer(self._worker.ended)

    def _refuse_over_limit(self, reason: str) -> NoReturn:
        self._report({"flag": "answer_limit"})
        raise NoAnswer(reason)

    def _make_exception(self, answer: dict[str, Any]) -> Exception:
        name, message = str(answer["raised"])[:100], str(answer.get("message", ""))[:400]
        if answer.get("memory") is True:
            self._report({"flag": "memory_limit"})
        base = codec.TRANSFERABLE_EXCEPTIONS.get(str(answer.get("base")), CandidateError)
        return _rebuild_exception(name, base, message)


def _rebuild_exception(name: str, base: type[Exception], message: str) -> Exception:
    """Make an exception that handlers of `base` catch, under the name of the program's class."""
    if base is not CandidateError:
        with suppress(TypeError, ValueError):  # e.g. UnicodeDecodeError, which needs more arguments
            kind: type[Exception] = base if base.__name__ == name else type(name, (base,), {})
            return kind(message)
    return CandidateError(f"{name}: {message}" if message else name)
