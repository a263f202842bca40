"""Parsers: extract the artifact from a response."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache, partial
from inspect import cleandoc
from itertools import dropwhile

from collab.errors import AgentError
from collab.plugins import call_function, check_call, check_not_async, find_function
from collab.syntax import can_parse, first_line, normalize_newlines, parse, split_lines

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)(.*)$")
_FILE_MARK = re.compile(r"^#\s*(?:file(?:name)?|path)\s*:\s*(.+?)\s*$", re.IGNORECASE)
_BARE_FILE_NAME = re.compile(r"^#\s*([^\s:]+\.py)\s*$")
"""A bare file name in the first line of a block."""
_FILE_HEADING = re.compile(
    r"^[\s#*_>\d.-]*(?:file(?:name)?|path)?\s*+:?+[\s*_`]*+([^\s`*:]+\.py)[`*_\s:]*+$",
    re.IGNORECASE,
)
_INFO_FILE_NAME = re.compile(r"([^\s=\"':]+\.py)\b")
_MAX_NAME_LINE = 200
"""Longest text in which a file's name is looked for. The patterns above take quadratic time."""


def parse_files(response: str) -> str:
    """Return the named files of a response, each below a line `# file: NAME.py`.

    A file is a fenced block whose first line is `# file: NAME.py`. The name may also follow the
    fence's language, or be in the line before the fence, as in `### NAME.py`. A response without
    fences may contain such lines itself. Blocks without a name are ignored. If a name occurs twice,
    the last one counts. Quotes, backticks and asterisks around a name in a `# file:` line are
    removed. Files without lines are dropped. The result is empty if no file is named.
    """
    response = normalize_newlines(response)
    blocks = _named_blocks(response.split("\n"))
    files: dict[str, str] = {}
    for name, lines in blocks or [("", response.split("\n"))]:
        files.update(_block_files(name, lines, fenced=bool(blocks)))
    return "\n".join(f"# file: {name}\n{source}" for name, source in files.items())


def _named_blocks(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Return the fenced blocks with the name given around each, or ""."""
    blocks: list[tuple[str, list[str]]] = []
    fence, before = "", ""
    for line in lines:
        match = _FENCE.match(line)
        if not fence and match:
            fence = match[1]
            named = _INFO_FILE_NAME.search(match[2][:_MAX_NAME_LINE])
            if not named and len(before) <= _MAX_NAME_LINE:
                named = _FILE_HEADING.match(before)
            blocks.append((named[1] if named else "", []))
        elif fence and match and match[1].startswith(fence) and not match[2].strip():
            fence, before = "", ""
        elif fence:
            blocks[-1][1].append(line)
        elif line.strip():
            before = line
    return blocks


def _block_files(name: str, lines: list[str], *, fenced: bool) -> dict[str, str]:
    """Return the files of a block, by name: the lines below each line with a file name."""
    sections: dict[str, list[str]] = {name: []} if name else {}
    for number, line in enumerate(lines):
        short = line if len(line) <= _MAX_NAME_LINE else ""
        mark = _FILE_MARK.match(short) or (
            _BARE_FILE_NAME.match(short) if fenced and not number else None
        )
        if mark:
            name = mark[1].strip("`*\"'")
            sections[name] = []
        elif name:
            sections[name].append(line)
    return {
        name: "\n".join(kept).strip("\n") + "\n" for name, kept in sections.items() if any(kept)
    }


Parser = Callable[[str], str]

_BLOCK = re.compile(
    r"^[ \t]*(```|~~~)[ \t]*([\w+-]*)[^\n]*$(.*?)(?:^[ \t]*\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL
)
"""A fenced block, to its end or to that of the response."""
_CODE_START = re.compile(r"(?:async\s+def|def|class|import|from|@)\b|@")
_MAX_ATTEMPTS = 12
"""Maximum number of start lines to try for unfenced code, and of cuts from each."""


def parser_for(name: str) -> Parser:
    """Return the parser called `name`, or the user's own at `module:function`.

    Raises:
        RecipeError: there is no such function, or it cannot be called with a response.
    """
    built_in: dict[str, Parser] = {
        "text": str.strip,
        "python": parse_python,
        "program": parse_program,
        "files": parse_files,
    }
    parser = find_function("parser", name, built_in)
    what = f"parser '{name}'"
    if name not in built_in:
        check_call(what, parser, ("response",))
        check_not_async(what, parser)
    return partial(_parse, what, parser)


def _parse(what: str, parser: Callable[..., object], response: str) -> str:
    """Return the artifact of a parser, which must be text."""
    artifact = call_function(what, AgentError, parser, response)
    if not isinstance(artifact, str):
        raise AgentError(f"{what} returned {type(artifact).__name__}; a parser returns text")
    return artifact


def parse_python(response: str) -> str:
    """Return the Python code of a response.

    The parser searches fenced blocks (a missing closing fence is tolerated), then the whole
    response, then its longest run of lines that parses. From code that parses, the parser keeps
    definitions, imports and assignments unchanged. It drops calls and asserts at module level,
    which only show how to use the code, and a truncated last definition that follows others. If
    nothing parses, it returns the text that looks most like code unchanged, so that errors can be
    located. The result is empty if there is no code.
    """
    response = normalize_newlines(response)
    blocks = _fenced_blocks(response)
    parsed = [whole for whole in map(_complete_part, blocks) if whole]
    if parsed:
        return "\n\n".join(kept for kept in map(_definitions, parsed) if kept)
    if blocks:
        return max(blocks, key=len).strip("\n")
    if can_parse(response):
        return _definitions(response)
    return _longest_parsing_run(response) or _from_first_code_line(response)


def parse_program(response: str) -> str:
    """Return a whole program: the last fenced block, otherwise the response."""
    response = normalize_newlines(response)
    blocks = _fenced_blocks(response)
    return blocks[-1] if blocks else response.strip()


def _fenced_blocks(response: str) -> list[str]:
    code = ("", "py", "python", "python3")
    blocks = [_dedent(m[3]) for m in _BLOCK.finditer(response) if m[2].lower() in code]
    return [block for block in blocks if block.strip()]


def _complete_part(code: str) -> str:
    """Return `code` if it parses, otherwise the part before its last statement. Return "" if that
    part does not parse or defines nothing."""
    if can_parse(code):
        return code
    lines = code.split("\n")
    starts = [i for i, line in enumerate(lines) if _CODE_START.match(line)]
    whole = "\n".join(lines[: starts[-1]]) if starts else ""
    return whole if can_parse(whole) and _definitions(whole) else ""


def _dedent(block: str) -> str:
    lines = block.strip("\n").split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    if margin and all(not line[:margin].strip() for line in lines):
        lines = [line[margin:] for line in lines]
    return "\n".join(lines)


def _definitions(code: str) -> str:
    lines = code.split("\n")
    kept, last = [], 0
    for node in parse(code).body:
        first = first_line(node)
        if first > last and not _shows_usage(node):
            last = node.end_lineno or first
            kept.append("\n".join(lines[first - 1 : last]))
    return "\n\n".join(kept)


def _shows_usage(node: ast.stmt) -> bool:
    """Return True for calls, asserts, bare names and `if __name__ == "__main__"` at module
    level."""
    if isinstance(node, ast.If):
        return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))
    return isinstance(node, ast.Expr | ast.Assert)


def _longest_parsing_run(response: str) -> str:
    """Return the longest run of lines that parses, beginning at a line that starts code."""
    lines = response.split("\n")
    starts = [i for i, line in enumerate(lines) if _CODE_START.match(line)][:_MAX_ATTEMPTS]
    runs = filter(None, (_longest_run_from(lines, start) for start in starts))
    return _definitions(max(runs, key=lambda run: run.count("\n"), default=""))


def _longest_run_from(lines: list[str], start: int) -> str:
    """Return the longest part from `start` that parses, cut before top-level lines with errors."""
    run = lines[start:]
    for _ in range(_MAX_ATTEMPTS):
        try:
            parse("\n".join(run))
        except SyntaxError as error:
            end = min(error.lineno or len(run), len(run)) - 1
            while end > 0 and not run[end][:1].strip():
                end -= 1
            run = run[:end]
        else:
            return "\n".join(run)
    return ""


def _from_first_code_line(response: str) -> str:
    lines = dropwhile(lambda line: not _CODE_START.match(line), response.split("\n"))
    return "\n".join(lines).rstrip()


def braces_content(text: str) -> str | None:
    """Return the content of the braces that open `text`, or None if they do not close."""
    depth = 0
    for place, mark in enumerate(text):
        depth += (mark == "{") - (mark == "}")
        if depth == 0:
            return text[1:place].strip()
    return None


def signature(prompt: str) -> str:
    """Return the prompt without the docstring of its last function, which then has no body.

    Imports and helper functions in the prompt stay. A prompt that is not Python, or does not end in
    a function with a docstring, is returned stripped.
    """
    text = _docstring_of(prompt)
    if text is None:
        return prompt.strip()
    lines = split_lines(prompt)[: text.lineno]
    lines[-1] = lines[-1].encode()[: text.col_offset].decode()
    return "\n".join(lines).strip()


def docstring(prompt: str) -> str:
    """Return the docstring of the prompt's last function, dedented, or "" if it has none."""
    text = _docstring_of(prompt)
    return "" if text is None else cleandoc(str(text.value))


@lru_cache(maxsize=64)
def _docstring_of(prompt: str) -> ast.Constant | None:
    try:
        body = parse(prompt).body
    except SyntaxError:
        return None
    last = body[-1] if body else None
    if not isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    first = last.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first.value if isinstance(first.value.value, str) else None
    return None
