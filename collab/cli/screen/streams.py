"""stdout and stderr wrappers: broken pipes, full disks, terminal escape codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from json import dumps
from typing import TYPE_CHECKING, Any, TextIO, cast

from collab.wording import CONTROL_CHARACTERS, escape_controls

if TYPE_CHECKING:
    from pydantic import BaseModel

FAILED, BROKEN_PIPE = 1, 141
"""Exit statuses when stdout cannot be written; after a broken pipe as in shells, 128 + SIGPIPE."""


class GuardedStream:
    """A text stream whose reader may close the pipe, like `head`, or whose disk may be full.

    For stdout, SystemExit then ends the command. For stderr, the text is dropped.
    """

    def __init__(self, wrapped: TextIO, *, output: bool) -> None:
        self.wrapped = wrapped
        self._output = output

    def write(self, text: str) -> int:
        with self._handle_errors():
            self.wrapped.write(text)
        return len(text)

    def flush(self) -> None:
        with self._handle_errors():
            self.wrapped.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    @contextmanager
    def _handle_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, self.wrapped.fileno())
            os.close(null_device)
            if self._output and not isinstance(error, BrokenPipeError):
                print(f"error: stdout cannot be written: {error.strerror}", file=sys.stderr)
                raise SystemExit(FAILED) from None
            if self._output:
                raise SystemExit(BROKEN_PIPE) from None


class EscapingStream:
    """A text stream that escapes characters which could control a terminal."""

    def __init__(self, wrapped: TextIO) -> None:
        self.wrapped = wrapped
        """The underlying stream, for pages that clean their own strings."""

    def write(self, text: str) -> int:
        self.wrapped.write(escape_controls(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


def guard_stream(wrapped: TextIO) -> TextIO:
    """Wrap a stream so that the command ends when the reader closes the pipe."""
    return cast(TextIO, GuardedStream(wrapped, output=True))


def open_closed_streams() -> None:
    """Open the null device in place of stdin, stdout and stderr, if a shell has closed them, so
    that no other file gets their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


@contextmanager
def guard_streams() -> Iterator[None]:
    """Context manager that guards stdout and stderr, and flushes stdout at exit."""
    errors = cast(TextIO, EscapingStream(cast(TextIO, GuardedStream(sys.stderr, output=False))))
    with redirect_stdout(guard_stream(sys.stdout)), redirect_stderr(errors):
        try:
            yield
        finally:
            sys.stdout.flush()


def escape_output() -> redirect_stdout[TextIO]:
    """Context manager that escapes terminal control characters on stdout."""
    return redirect_stdout(cast(TextIO, EscapingStream(sys.stdout)))


def json_text(record: BaseModel) -> str:
    """Return the record as JSON, with escapes for characters that could control a terminal."""
    return CONTROL_CHARACTERS.sub(
        lambda match: dumps(match.group())[1:-1], record.model_dump_json()
    )
