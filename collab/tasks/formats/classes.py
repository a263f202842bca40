"""ClassEval (Du et al. 2023, arXiv 2308.01861): a class whose methods must be written.

Its tests are `unittest` cases. Each test method becomes one assert, so the number of asserts is
known before any program runs. The class in the test is a stand-in whose objects live in the
sandbox.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent
from typing import Any

from collab.agents.classes import CLASS_PREFIX, Function
from collab.errors import TaskError, Unfit
from collab.sandbox.jail.classes.expected import compute_expected_first
from collab.sandbox.jail.preload import MODULES
from collab.syntax import parse
from collab.tasks.formats.fields import docstring, field, tree_of
from collab.tasks.formats.mbpp import make_check

IMPORTABLE_MODULES = frozenset(name.partition(".")[0] for name in MODULES.split()) | {"__future__"}
_FILE_ACCESS_NAMES = frozenset({"open", "os", "tempfile", "shutil", "pathlib"})
"""Names that show that a test is about files. Only the program can read the files that it writes.
"""
_QUOTES = "'\"“”"

_PASSES_SOURCE = '''
def passes(candidate, case):
    """Run one test method; raises what it raises."""
    try:
        case.debug()
    except Exception:
        raise
    except BaseException as error:  # no answer, which no `assertRaises` may take for one
        raise AssertionError(str(error)) from None
    return True
'''


def classeval(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row of ClassEval: `skeleton`, `test` and `test_classes`, `solution_code`,
    `class_name`.

    The prompt is the skeleton, or one made of its parts if it does not parse or lacks the class.
    `methods` are those to write, each with its `name`, `signature` and number of `parameters`.

    Raises:
        TaskError: a field is missing, or has no such class or no test method.
        Unfit: the row needs modules that the sandbox lacks, or its test is about files.
    """
    name = field(row, str, "class_name")
    test = tree_of(field(row, str, "test"), "the field 'test'")
    code = "\n".join([*_imports(row), field(row, str, "solution_code")])
    solution = tree_of(code, "the field 'solution_code'")
    prompt = _prompt(row, name, _find_class(solution, name))
    _check_fit(test, solution, parse(prompt))
    return {
        "task_id": field(row, str, "task_id"),
        "prompt": prompt,
        "entry_point": f"{CLASS_PREFIX}{name}",
        "class_name": name,
        "methods": list(_unwritten_methods(_find_class(parse(prompt), name))),
        "test": _test_of(row, test, _find_class(solution, name)),
        "canonical_solution": code,
    }


def _imports(row: Mapping[str, Any]) -> list[str]:
    return [str(line) for line in row.get("import_statement") or []]


def _find_class(tree: ast.Module, name: str) -> ast.ClassDef:
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    if not classes:
        raise TaskError(f"no class '{name}' is defined")
    return classes[-1]


def _check_fit(test: ast.Module, *others: ast.Module) -> None:
    """Check that the sandbox can run the test."""
    needed = {name for tree in (test, *others) for name in _imported_modules(tree)}
    if lacking := sorted(needed - IMPORTABLE_MODULES):
        raise Unfit(f"needs {', '.join(lacking)}, which the sandbox does not have")
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    if names & _FILE_ACCESS_NAMES:
        raise Unfit("its test reads or writes files, but the sandbox gives a program none")


def _imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]


def _prompt(row: Mapping[str, Any], name: str, solution: ast.ClassDef) -> str:
    skeleton = field(row, str, "skeleton")
    try:
        _find_class(parse(skeleton), name)
    except (SyntaxError, TaskError):
        return _rebuild_skeleton(row, name, solution)
    return skeleton


def _rebuild_skeleton(row: Mapping[str, Any], name: str, solution: ast.ClassDef) -> str:
    """Rebuild a skeleton from the descriptions and the solution's constructor and signatures."""
    texts = {
        str(method["method_name"]): str(method["method_description"]).partition(":\n")[2]
        for method in field(row, list, "methods_info")
    }
    pieces = [docstring(_strip_quotes(str(row.get("class_description") or name)))]
    for node in _functions(solution):
        if node.name == "__init__":
            pieces.append(indent(ast.unparse(node), "    ") + "\n")
        elif node.name in texts:
            text = docstring(_strip_quotes(texts[node.name]))
            pieces.append(indent(f"{_signature(node)}\n{text}", "    "))
    return "\n".join([*_imports(row), "", f"class {name}:", "\n".join(pieces)])


def _strip_quotes(text: str) -> str:
    return text.strip().strip(_QUOTES).rstrip()


def _functions(kind: ast.ClassDef) -> list[Function]:
    return [node for node in kind.body if isinstance(node, Function)]


def _signature(node: Function) -> str:
    """Return the lines of a function above its body."""
    bare = ast.unparse(node).split("\n")
    lines = len(node.decorator_list) + 1
    return "\n".join(bare[:lines])


def _unwritten_methods(skeleton: ast.ClassDef) -> Iterator[dict[str, Any]]:
    """Yield the methods that have no more than a docstring."""
    for node in _functions(skeleton):
        if all(isinstance(line, ast.Pass | ast.Expr) for line in node.body):
            if node.name == "__init__":
                continue
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            parameters = [argument for argument in every if argument.arg not in ("self", "cls")]
            yield {"name": node.name, "signature": _signature(node), "parameters": len(parameters)}


def _test_of(row: Mapping[str, Any], test: ast.Module, solution: ast.ClassDef) -> str:
    """Return the test in collab's form: the published one, run one method at a time.

    The published test runs as a text of its own, so its asserts are not counted one by one. Before
    it stands an empty class, which tells the sandbox the names of the solution's methods. Expected
    values come first, as in every test of a class.
    """
    cases = list(_test_cases(test, [str(name) for name in field(row, list, "test_classes")]))
    if not cases:
        raise TaskError("the test has no method of the classes in 'test_classes'")
    methods = [f"    def {node.name}(self, *_, **__): ..." for node in _functions(solution)]
    stand_in = "\n".join([f"class {solution.name}:", *(methods or ["    pass"])])
    ordered = ast.unparse(compute_expected_first(test, [solution.name]))
    source = "\n".join([*_imports(row), stand_in, ordered, _PASSES_SOURCE])
    asserts = [f"assert passes(candidate, {case}({name!r}))" for case, name in cases]
    return make_check(f"exec({source!r}, globals())", asserts)


def _test_cases(test: ast.Module, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the test methods, by class."""
    for node in test.body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            methods = dict.fromkeys(function.name for function in _functions(node))
            yield from ((node.name, name) for name in methods if name.startswith("test"))
