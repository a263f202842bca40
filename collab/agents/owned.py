"""Functions that only one agent may define: what others write under their names is renamed."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from collab.analysis.scopes import Definition, Scope, Variable, scopes_of
from collab.recipe.roles import Roles
from collab.records import Problem
from collab.syntax import parse

_HEAD = re.compile(r"(?:async(?:\s|\\\n)+)?(?:def|class)(?:\s|\\\n)+(\w+)")
_LAST_WORD = re.compile(r"\w+$")

_Edit = tuple[int, int, str]
"""Start, end and new text of one replacement."""


def only_owned(artefacts: Mapping[str, str], roles: Roles, problem: Problem) -> dict[str, str]:
    """The artefacts, with other names for what they define in a helper's place."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for helper in roles.helpers:
        owners[roles.function_of(helper, problem.public)].add(helper)
    return {
        agent: without(source, [name for name, writers in owners.items() if agent not in writers])
        for agent, source in artefacts.items()
    }


def without(source: str, names: Collection[str]) -> str:
    """The source, with other names where it would define `names`; lines keep their numbers.

    Renamed is each binding of a name in the module, also in a branch or by `global`, and each
    function, class and import of that name within a function. Methods, parameters and other local
    variables stay. So a call of the name calls whatever else defines it.
    """
    try:
        scopes = scopes_of(parse(source))
    except SyntaxError:
        return source
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    places = _Places(text)
    edits = [
        edit
        for name in names
        for scope in scopes
        if _defines(scope, name)
        for edit in _edits(scope, name, _unused(f"{name}_dropped", text), places)
    ]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _defines(scope: Scope, name: str) -> bool:
    """True if the scope binds `name` for the module, or as a local function, class or import."""
    if name not in scope.bound:
        return False
    if scope.resolve(name) == Variable(0, name):
        return True
    return not scope.is_class and any(_is_definition(node, name) for node in scope.nodes)


def _is_definition(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.alias):
        return name == (node.asname or node.name.partition(".")[0])
    return isinstance(node, Definition) and node.name == name


class _Places:
    """Character positions of a tree's nodes in its source."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")

    def at(self, line: int, byte: int) -> int:
        above = sum(len(text) + 1 for text in self._lines[: line - 1])
        return above + len(self._lines[line - 1].encode()[:byte].decode())

    def of(self, node: ast.expr | ast.stmt | ast.alias) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.at(node.lineno, node.col_offset)
        return start, self.at(node.end_lineno, node.end_col_offset)


def _edits(scope: Scope, name: str, new: str, places: _Places) -> Iterator[_Edit]:
    loops = [node.target for node in scope.nodes if isinstance(node, ast.comprehension)]
    of_loops = {id(part) for target in loops for part in ast.walk(target)}
    for node in scope.nodes:
        match node:
            case ast.Name(id=bound, ctx=ast.Store()) if bound == name and id(node) not in of_loops:
                yield (*places.of(node), new)
            case ast.alias() if _is_definition(node, name):
                start, end = places.of(node)
                word = _LAST_WORD.search(places.text, start, end) if node.asname else None
                yield (word.start(), end, new) if word else (end, end, f" as {new}")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name == name:
                head = _HEAD.match(places.text, places.of(node)[0])
                assert head is not None
                yield (*head.span(1), new)


def _unused(name: str, text: str) -> str:
    while name in text:
        name += "_"
    return name
