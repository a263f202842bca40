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

FAILED, READER_LEFT = 1, 141
"""Exit statuses when stdout cannot be written; after a broken pipe as in shells, 128 + SIGPIPE."""


class Guarded:
    """A text stream whose reader may close the pipe, like `head`, or whose disk may be full.

    For stdout, SystemExit then ends the command. For stderr, the text is dropped.
    """

    def __init__(self, beneath: TextIO, *, output: bool) -> None:
        self.beneath = beneath
        self._output = output

    def write(self, text: str) -> int:
        with self._reader():
            self.beneath.write(text)
        return len(text)

    def flush(self) -> None:
        with self._reader():
            self.beneath.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)

    @contextmanager
    def _reader(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.beneath.fileno())
            os.close(nowhere)
            if self._output and not isinstance(error, BrokenPipeError):
                print(f"error: stdout cannot be written: {error.strerror}", file=sys.stderr)
                raise SystemExit(FAILED) from None
            if self._output:
                raise SystemExit(READER_LEFT) from None


class Safe:
    """A text stream that escapes characters which could control a terminal."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath
        """The underlying stream, for pages that clean their own strings."""

    def write(self, text: str) -> int:
        self.beneath.write(escape_controls(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def guarded(beneath: TextIO) -> TextIO:
    """Wrap a stream so that the command ends when the reader closes the pipe."""
    return cast(TextIO, Guarded(beneath, output=True))


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
def guarded_streams() -> Iterator[None]:
    """Context manager that guards stdout and stderr against closed pipes, and flushes stdout at
    exit.
    """
    errors = cast(TextIO, Safe(cast(TextIO, Guarded(sys.stderr, output=False))))
    with redirect_stdout(guarded(sys.stdout)), redirect_stderr(errors):
        try:
            yield
        finally:
            sys.stdout.flush()


def safe_output() -> redirect_stdout[TextIO]:
    """Context manager that escapes terminal control characters on stdout."""
    return redirect_stdout(cast(TextIO, Safe(sys.stdout)))


def json_text(record: BaseModel) -> str:
    """Return the record as JSON, with escapes for characters that could control a terminal."""
    return CONTROL_CHARACTERS.sub(
        lambda match: dumps(match.group())[1:-1], record.model_dump_json()
    )
