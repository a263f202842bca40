"""Joins: combine the agents' artifacts into the joint artifact, and record who wrote each line."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from collab.agents import classes
from collab.analysis.scopes import Definition, Scope, Variable, scopes_of
from collab.errors import AgentError
from collab.plugins import call_function, check_call, check_not_async, find_function
from collab.recipe.team import NO_ROLES, Roles
from collab.records import Problem
from collab.syntax import first_line, normalize_newlines, parse, split_lines

_DEFINITION_HEAD = re.compile(r"(?:async(?:\s|\\\n)+)?(?:def|class)(?:\s|\\\n)+(\w+)")
_LAST_WORD = re.compile(r"\w+$")

_Edit = tuple[int, int, str]
"""Start, end and new text of one replacement."""


def rename_unowned(artifacts: Mapping[str, str], roles: Roles, problem: Problem) -> dict[str, str]:
    """Return the artifacts, with other agents' definitions of a helper's function renamed."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for helper in roles.helpers:
        owners[roles.function_of(helper, problem.public)].add(helper)
    return {
        agent: rename_definitions(
            source, [name for name, writers in owners.items() if agent not in writers]
        )
        for agent, source in artifacts.items()
    }


def rename_definitions(source: str, names: Collection[str]) -> str:
    """Return the source with the definitions of `names` renamed. Line numbers stay the same.

    The function renames every module-level binding of a name, including those in a branch or by
    `global`. Within functions, it renames functions, classes and imports. Methods, parameters and
    other local variables keep their names. Calls of the name then reach the definition that is
    left.
    """
    try:
        scopes = scopes_of(parse(source))
    except SyntaxError:
        return source
    text = normalize_newlines(source)
    positions = _Positions(text)
    edits = [
        edit
        for name in names
        for scope in scopes
        if _defines(scope, name)
        for edit in _rename_edits(scope, name, _unused_name(f"{name}_dropped", text), positions)
    ]
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _defines(scope: Scope, name: str) -> bool:
    """Return True if the scope binds `name` for the module, or by a local definition or import."""
    if name not in scope.bound_names:
        return False
    if scope.resolve(name) == Variable(0, name):
        return True
    return not scope.is_class and any(_is_definition(node, name) for node in scope.nodes)


def _is_definition(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.alias):
        return name == (node.asname or node.name.partition(".")[0])
    return isinstance(node, Definition) and node.name == name


class _Positions:
    """Character positions of a tree's nodes in its source."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")

    def position(self, line: int, byte: int) -> int:
        above = sum(len(text) + 1 for text in self._lines[: line - 1])
        return above + len(self._lines[line - 1].encode()[:byte].decode())

    def span(self, node: ast.expr | ast.stmt | ast.alias) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.position(node.lineno, node.col_offset)
        return start, self.position(node.end_lineno, node.end_col_offset)


def _rename_edits(scope: Scope, name: str, new: str, positions: _Positions) -> Iterator[_Edit]:
    loops = [node.target for node in scope.nodes if isinstance(node, ast.comprehension)]
    loop_targets = {id(part) for target in loops for part in ast.walk(target)}
    for node in scope.nodes:
        match node:
            case ast.Name(id=bound, ctx=ast.Store()) if (
                bound == name and id(node) not in loop_targets
            ):
                yield (*positions.span(node), new)
            case ast.alias() if _is_definition(node, name):
                start, end = positions.span(node)
                word = _LAST_WORD.search(positions.text, start, end) if node.asname else None
                yield (word.start(), end, new) if word else (end, end, f" as {new}")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name == name:
                head = _DEFINITION_HEAD.match(positions.text, positions.span(node)[0])
                assert head is not None
                yield (*head.span(1), new)


def _unused_name(name: str, text: str) -> str:
    while name in text:
        name += "_"
    return name


@dataclass(frozen=True)
class Joint:
    """A joint artifact, and which of its lines came from which agent."""

    text: str
    spans: Mapping[str, tuple[int, int]]
    """First and last line of each agent's part, from 1, both included."""

    def locate(self, line: int) -> tuple[str, int] | None:
        """Return the agent that wrote a line, and the number of the line in its own artifact."""
        for agent, (first, last) in self.spans.items():
            if first <= line <= last:
                return agent, line - first + 1
        return None


_FUTURE_IMPORT = re.compile(r"^from __future__ import (?:\([\w\s,]*\).*|.+)$", re.MULTILINE)

Join = Callable[[Mapping[str, str], Problem], Joint]
"""Makes the joint artifact of the agents' artifacts. It raises AgentError if that is impossible."""


def join_for(name: str, roles: Roles = NO_ROLES) -> Join:
    """Return the join called `name`, or the user's own at `module:function`.

    Args:
        roles: the team's roles; only `python-owned` needs them.

    Raises:
        RecipeError: there is no such function, or it cannot be called with artifacts and problem.
    """
    built_in: dict[str, Join] = {
        "text": join_text,
        "python": join_python,
        "python-owned": partial(join_owned, roles),
        "files": join_files,
        "class": join_class,
    }
    join = find_function("join", name, built_in)
    what = f"join '{name}'"
    if name not in built_in:
        check_call(what, join, ("artifacts", "problem"))
        check_not_async(what, join)
    return partial(_make_joint, what, join)


def _make_joint(
    what: str, join: Callable[..., object], artifacts: Mapping[str, str], problem: Problem
) -> Joint:
    """Make a `Joint` from what a join returns: text or a `Joint`."""
    made = call_function(what, AgentError, join, dict(artifacts), problem)
    if isinstance(made, str):
        return locate_artifacts(made, artifacts)
    if not isinstance(made, Joint):
        raise AgentError(f"{what} returned {type(made).__name__}; a join returns text or a Joint")
    n_lines = len(made.text.split("\n"))
    for agent, (first, last) in made.spans.items():
        if agent not in artifacts or not 1 <= first <= last <= n_lines:
            raise AgentError(
                f"{what} returned lines {first} to {last} for {agent!r:.40}; the joint artifact has"
                f" {n_lines} lines, of {', '.join(artifacts)}"
            )
    return made


def locate_artifacts(text: str, artifacts: Mapping[str, str]) -> Joint:
    """Return a joint artifact that locates each artifact that occurs exactly once in `text`."""
    spans = {}
    for agent, artifact in artifacts.items():
        piece = artifact.strip("\n")
        if not piece or f"\n{text}\n".count(f"\n{piece}\n") != 1:
            continue
        first = f"\n{text}\n".partition(f"\n{piece}\n")[0].count("\n") + 1
        spans[agent] = (first, first + piece.count("\n"))
    return Joint(text, spans)


def join_text(artifacts: Mapping[str, str], problem: Problem) -> Joint:  # noqa: ARG001
    """Return the artifacts, concatenated in the team's order."""
    joint = _stack_pieces(dict(artifacts), "\n\n")
    return Joint(joint.text.removesuffix("\n"), joint.spans)


def join_python(artifacts: Mapping[str, str], problem: Problem) -> Joint:
    """Return one program: the prompt's imports and helpers, then each agent's code in order.

    `from __future__` imports move to the top, the only place where Python allows them. A comment
    replaces each, so that lines keep their numbers.
    """
    prompt_code = preamble(
        str(problem.public.get("prompt", "")), str(problem.public.get("entry_point", ""))
    )
    future = dict.fromkeys(
        line for artifact in artifacts.values() for line in _FUTURE_IMPORT.findall(artifact)
    )
    pieces = {
        agent: _FUTURE_IMPORT.sub(lambda match: "# " + match[0].replace("\n", "\n# "), artifact)
        for agent, artifact in artifacts.items()
    }
    return _stack_pieces({"": "\n".join([*future, prompt_code]), **pieces}, "\n\n\n")


def join_owned(roles: Roles, artifacts: Mapping[str, str], problem: Problem) -> Joint:
    """Join as `python` does, but take a helper's function from that helper only."""
    return join_python(rename_unowned(artifacts, roles, problem), problem)


def join_files(artifacts: Mapping[str, str], problem: Problem) -> Joint:  # noqa: ARG001
    """Return one program of all agents' files, in the agents' order.

    If two agents wrote the same file, the program does not load, and its error gives the name and
    both positions.
    """
    return _stack_pieces(dict(artifacts), "\n")


def join_class(artifacts: Mapping[str, str], problem: Problem) -> Joint:
    """Return the class that the problem asks for, with the methods of all agents.

    No line is assigned to an agent, because methods are placed in the prompt's order.

    Raises:
        AgentError: the problem asks for no class, or its prompt does not define it.
    """
    entry = str(problem.public.get("entry_point", ""))
    if not entry.startswith(classes.CLASS_PREFIX):
        raise AgentError(
            f"the join 'class' makes a class, but {problem.address} asks for"
            f" {entry or 'no program'}; set team.join to python"
        )
    prompt = str(problem.public.get("prompt", ""))
    name = entry.removeprefix(classes.CLASS_PREFIX)
    return Joint(classes.join_class(artifacts.values(), prompt, name), {})


def preamble(prompt: str, entry_point: str) -> str:
    """Return a code prompt's imports and helpers, or "" if the prompt does not parse."""
    try:
        tree = parse(prompt)
    except SyntaxError:
        return ""
    lines, parts = split_lines(prompt), list[str]()
    for node in tree.body:
        if not (isinstance(node, classes.Function) and node.name == entry_point):
            parts += lines[first_line(node) - 1 : node.lineno - 1]  # decorators
            parts.append(ast.get_source_segment(prompt, node) or "")
    return "\n".join(parts)


def _stack_pieces(pieces: dict[str, str], separator: str) -> Joint:
    text, spans = "", {}
    for agent, source in pieces.items():
        piece = source.strip("\n")
        if not piece:
            continue
        text += separator if text else ""
        first = text.count("\n") + 1
        text += piece
        if agent:
            spans[agent] = (first, text.count("\n") + 1)
    return Joint(text + "\n" if text else "", spans)
