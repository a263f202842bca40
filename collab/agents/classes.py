"""Joins one class whose methods were written by several agents."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from collab.errors import AgentError
from collab.syntax import first_line, parse

CLASS_PREFIX = "class "
"""Prefix of the entry point of a problem that asks for a class."""
_FUTURE_IMPORT = "from __future__ "
_INDENT = "    "

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class ClassParts:
    """The parts of a class that one agent wrote."""

    methods: dict[str, str] = field(default_factory=dict)
    """Source text of each method, as in a class, by name."""
    statements: list[str] = field(default_factory=list)
    """Assignments and similar statements in the body of the class."""
    module_level: list[str] = field(default_factory=list)
    """Imports, constants and functions outside the class that are not its methods."""


def collect_methods(source: str, name: str, wanted: Collection[str]) -> ClassParts:
    """Return the methods of the class `name` in `source`, written inside or outside the class.

    A function is a method if it is `wanted`, or if its first parameter is `self` or `cls`. The last
    definition of a name counts. A definition without a statement does not count.

    Raises:
        SyntaxError: the source does not parse.
    """
    parts, lines = ClassParts(), source.split("\n")
    for node in parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for member in node.body:
                _add_member(parts, member, lines, parts.statements)
        elif isinstance(node, Function) and not (node.name in wanted or _is_method(node)):
            parts.module_level.append(_statement_text(node, lines, ""))
        else:
            _add_member(parts, node, lines, parts.module_level)
    return parts


def _add_member(parts: ClassParts, node: ast.stmt, lines: list[str], others: list[str]) -> None:
    if isinstance(node, Function):
        if has_body(node):
            parts.methods[node.name] = _statement_text(node, lines)
    elif not isinstance(node, ast.Expr | ast.Pass):
        others.append(_statement_text(node, lines, _INDENT if others is parts.statements else ""))


def has_body(node: Function) -> bool:
    """Return True if a function has a statement other than its docstring, `pass` and `...`."""
    return not all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in node.body
    )


def _is_method(node: Function) -> bool:
    first = [*node.args.posonlyargs, *node.args.args][:1]
    return bool(first) and first[0].arg in ("self", "cls")


def skeleton_of(prompt: str, name: str) -> ast.ClassDef:
    """Return the class that a prompt asks for.

    Raises:
        AgentError: the prompt does not define it.
    """
    try:
        tree = parse(prompt)
    except SyntaxError as error:
        raise AgentError(
            f"the prompt with the class '{name}' does not parse: {error.msg}"
        ) from None
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    raise AgentError(f"the prompt defines no class '{name}' whose methods could be joined")


def join_class(sources: Collection[str], prompt: str, name: str) -> str:
    """Return the prompt's class with the methods of all sources, in order.

    If two sources wrote a method, the first one counts. The prompt's constructor stays, and so do
    its methods that nobody wrote. A source that does not parse is appended unchanged, so that the
    program does not parse either.

    Raises:
        AgentError: the prompt does not define the class.
    """
    skeleton, lines = skeleton_of(prompt, name), prompt.split("\n")
    original = {node.name: node for node in skeleton.body if isinstance(node, Function)}
    parts, broken = [], []
    for source in sources:
        try:
            parts.append(collect_methods(source, name, original))
        except SyntaxError:
            broken.append(source)
    methods: dict[str, str] = {}
    for part in parts:
        for method, text in part.methods.items():
            methods.setdefault(method, text)
    if "__init__" in original and has_body(original["__init__"]):
        methods.pop("__init__", None)
    body = [
        *(
            _statement_text(node, lines)
            for node in skeleton.body
            if not (isinstance(node, Function) and node.name in methods)
        ),
        *("\n".join(part.statements) for part in parts),
        *(_add_decorators(method, text, original) for method, text in methods.items()),
    ]
    start, end = first_line(skeleton) - 1, skeleton.end_lineno
    module_level = list(dict.fromkeys(text for part in parts for text in part.module_level))
    future = [text for text in module_level if text.startswith(_FUTURE_IMPORT)]
    others = [text for text in module_level if text not in future]
    head = "\n".join(lines[start : first_line(skeleton.body[0]) - 1])
    above = "\n".join([*future, *lines[:start], *others])
    return (
        _join_pieces(
            [above, f"{head}\n{_join_pieces(body, 2)}", "\n".join(lines[end:]), *broken], 3
        )
        + "\n"
    )


def _add_decorators(name: str, text: str, original: Mapping[str, Function]) -> str:
    """Return a method with the prompt's decorators if it has none itself."""
    if name not in original or text.lstrip().startswith("@"):
        return text
    above = [f"{_INDENT}@{ast.unparse(node)}" for node in original[name].decorator_list]
    return "\n".join([*above, text])


def _join_pieces(pieces: Collection[str], lines: int) -> str:
    """Join the non-empty pieces, separated by this many line ends."""
    return ("\n" * lines).join(piece.strip("\n") for piece in pieces if piece.strip())


def _statement_text(node: ast.stmt, lines: list[str], margin: str = _INDENT) -> str:
    """Return a statement's lines, indented by `margin`. Inner lines of strings stay unchanged."""
    if lines[node.lineno - 1].encode()[: node.col_offset].strip():  # several statements on one line
        return "\n".join(margin + line for line in ast.unparse(node).split("\n"))
    first = first_line(node)
    inner = {
        line
        for part in ast.walk(node)
        if isinstance(part, ast.Constant | ast.JoinedStr) and part.end_lineno
        for line in range(part.lineno + 1, part.end_lineno + 1)
    }
    numbered = enumerate(lines[first - 1 : node.end_lineno], first)
    return "\n".join(
        line if number in inner else _reindent_line(line, node.col_offset, margin)
        for number, line in numbered
    )


def _reindent_line(line: str, columns: int, margin: str) -> str:
    if not line.strip():
        return ""
    return margin + (line[columns:] if not line[:columns].strip() else line.lstrip())
