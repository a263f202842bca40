"""A program of several files, as one string: each file begins with a line `# file: NAME.py`."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

MAX_FILES = 32
MAX_BYTES = 200_000
"""Largest size of all files together, in bytes."""
MAX_NAME_CHARACTERS = 100

FILE_MARK = re.compile(r"^# file: (.*)$", re.MULTILINE)
_NAME_PATTERN = re.compile(r"(?:[A-Za-z_]\w*/)*[A-Za-z_]\w*\.py", re.ASCII)


class BadFiles(SyntaxError):
    """The files are not a program: a name is invalid or used twice, or there are too many."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message, (None, line, None, None))


@dataclass(frozen=True)
class File:
    """One file of a program."""

    name: str
    source: str
    line: int
    """Line of the whole text, counted from 1, on which the file begins."""

    @property
    def module(self) -> str:
        """Name by which the file is imported, e.g. `shapes.area` for `shapes/area.py`."""
        return self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_files(text: str) -> bool:
    """Return True if the first line of `text` begins a file."""
    return FILE_MARK.match(text) is not None


def split_files(text: str) -> tuple[File, ...]:
    """Return the files of a program whose first line begins a file, in order.

    Raises:
        BadFiles: a name is not a relative path of identifiers that ends in `.py`, is a standard
            module, or is used twice; or a limit is exceeded. The message gives the line.
    """
    marks = list(FILE_MARK.finditer(text))
    if len(marks) > MAX_FILES:
        raise BadFiles(f"{len(marks)} files; the limit is {MAX_FILES}", 1)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise BadFiles(f"files of {size} bytes together; the limit is {MAX_BYTES}", 1)
    files: dict[str, File] = {}
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        line = text.count("\n", 0, mark.start()) + 1
        end = following.start() if following else len(text)
        file = File(mark[1].strip(), text[mark.end() + 1 : end], line + 1)
        _check_name(file, files, line)
        files[file.module] = file
    return tuple(files.values())


def entry_file(files: tuple[File, ...]) -> File:
    """Return the file whose function the tests call: `main.py`, otherwise the last one."""
    return next((file for file in files if file.name == "main.py"), files[-1])


def _check_name(file: File, files: dict[str, File], line: int) -> None:
    if len(file.name) > MAX_NAME_CHARACTERS or not _NAME_PATTERN.fullmatch(file.name):
        raise BadFiles(
            f"{file.name[:MAX_NAME_CHARACTERS]!r} is not a file name; use a relative path of"
            " letters, digits and '_' that ends in .py, such as shapes/area.py",
            line,
        )
    if file.module in files:
        first = files[file.module].line - 1
        raise BadFiles(f"'{file.name}' occurs twice, first in line {first}", line)
    if file.module.partition(".")[0] in sys.stdlib_module_names:
        raise BadFiles(f"'{file.name}' has the name of a standard module; choose another", line)
