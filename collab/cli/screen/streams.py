"""What lies between the commands and their readers: terminals, pipes, and readers who leave."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from json import dumps
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from pydantic import BaseModel

READER_LEFT = 141
"""The exit status of a program whose reader has left, as shells have it: 128 and SIGPIPE."""


STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, marks of direction, separators, and what is not seen at all."""


def clean(text: str) -> str:
    """The text with a name in place of each character that steers what is around it.

    What a model, a server or a file says may hold such characters.
    """
    return STEERING.sub(lambda match: _name(ord(match.group())), text.replace("\r\n", "\n"))


def _name(point: int) -> str:
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


class Guarded:
    """A text stream whose reader may leave, as `head` does.

    Then SystemExit ends the command like an interruption; what is written after that goes nowhere.
    With complaints the reader of the output is not gone, so those are only dropped.
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
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.beneath.fileno())
            os.close(nowhere)
            if self._output:
                raise SystemExit(READER_LEFT) from None


class Safe:
    """A text stream that lets nothing through that steers a terminal."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath
        """The stream itself, for pages, which clean what is not their own."""

    def write(self, text: str) -> int:
        self.beneath.write(clean(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def guarded(beneath: TextIO) -> TextIO:
    """The output, which ends the command when its reader has left."""
    return cast(TextIO, Guarded(beneath, output=True))


@contextmanager
def guarded_streams() -> Iterator[None]:
    """While entered, readers may leave; complaints are safe to look at; at the end all is out."""
    kept = sys.stdout, sys.stderr
    sys.stdout = guarded(sys.stdout)
    sys.stderr = cast(TextIO, Safe(cast(TextIO, Guarded(sys.stderr, output=False))))
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        finally:
            sys.stdout, sys.stderr = kept


@contextmanager
def safe_output() -> Iterator[None]:
    """While entered, what is printed is safe to look at; help, which is our own, is not entered."""
    kept = sys.stdout
    sys.stdout = cast(TextIO, Safe(kept))
    try:
        yield
    finally:
        sys.stdout = kept


def json_text(record: BaseModel) -> str:
    """The record as JSON that steers no terminal: JSON has other spellings of such characters."""
    return STEERING.sub(lambda match: dumps(match.group())[1:-1], record.model_dump_json())
