"""The parser of responses that hold several named files."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)(.*)$")
_MARK = re.compile(r"^#\s*(?:file(?:name)?|path)\s*:\s*(.+?)\s*$", re.IGNORECASE)
_BARE = re.compile(r"^#\s*([^\s:]+\.py)\s*$")
"""A name alone, in the first line of a block."""
_HEADING = re.compile(
    r"^[\s#*_>\d.-]*(?:file(?:name)?|path)?\s*:?[\s*_`]*([^\s`*:]+\.py)[`*_\s:]*$", re.IGNORECASE
)
_INFO = re.compile(r"([^\s=\"':]+\.py)\b")


def parse_files(response: str) -> str:
    """The named files of a response, each below a line `# file: NAME.py`.

    A file is a fenced block whose first line is `# file: NAME.py`. The name may also stand behind
    the fence's language, or in the line before the fence, as in `### NAME.py`. A response without
    fences may hold such lines itself. Blocks without a name are left out; of a name that comes
    twice the last one counts. Names are handed on as they are written. Empty when no file is named.
    """
    response = response.replace("\r\n", "\n").replace("\r", "\n")
    blocks = _blocks(response.split("\n"))
    files: dict[str, str] = {}
    for name, lines in blocks or [("", response.split("\n"))]:
        files.update(_sections(name, lines, fenced=bool(blocks)))
    return "\n".join(f"# file: {name}\n{source}" for name, source in files.items())


def _blocks(lines: list[str]) -> list[tuple[str, list[str]]]:
    """The fenced blocks with the name told around each, or ""."""
    found: list[tuple[str, list[str]]] = []
    fence, before = "", ""
    for line in lines:
        match = _FENCE.match(line)
        if not fence and match:
            fence = match[1]
            named = _INFO.search(match[2]) or _HEADING.match(before)
            found.append((named[1] if named else "", []))
        elif fence and match and match[1].startswith(fence) and not match[2].strip():
            fence, before = "", ""
        elif fence:
            found[-1][1].append(line)
        elif line.strip():
            before = line
    return found


def _sections(name: str, lines: list[str], *, fenced: bool) -> dict[str, str]:
    """The files of a block, by name: what stands below each line that names one."""
    found: dict[str, list[str]] = {name: []} if name else {}
    for number, line in enumerate(lines):
        mark = _MARK.match(line) or (_BARE.match(line) if fenced and not number else None)
        if mark:
            name = mark[1].strip("`*\"'")
            found[name] = []
        elif name:
            found[name].append(line)
    return {name: "\n".join(kept).strip("\n") + "\n" for name, kept in found.items() if any(kept)}
