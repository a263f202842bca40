"""Parsing programs, of one file or of several."""

from __future__ import annotations

from collab.sandbox.jail.files import is_files, split_files
from collab.syntax import parse


def parse_program(text: str) -> None:
    """Parse a program, or each of its files.

    Raises:
        SyntaxError: a program or file does not parse. The error gives the line in the whole text.
    """
    if not is_files(text):
        parse(text)
        return
    for file in split_files(text):
        try:
            parse(file.source)
        except SyntaxError as error:
            message = f"{error.msg} ({file.name}, line {error.lineno})"
            line = file.line + (error.lineno or 1) - 1
            raise SyntaxError(message, (file.name, line, error.offset, None)) from None


def program_parses(text: str) -> bool:
    """Return True if a program, or each of its files, parses."""
    try:
        parse_program(text)
    except SyntaxError:
        return False
    return True
