"""The source of a user's function: its file, and the local modules that the file imports."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from importlib.machinery import PathFinder
from pathlib import Path

from collab.errors import RecipeError


@dataclass(frozen=True)
class Source:
    """One file of a function's source."""

    root: Path
    """The folder that imports are looked up in."""
    place: Path
    """Where the file stands in it."""

    @property
    def path(self) -> Path:
        return (self.root / self.place).resolve()

    @property
    def module(self) -> str:
        """The top-level name that the file, or the package that it belongs to, is imported by."""
        return self.place.parts[0].removesuffix(".py")


def sources_of(file: Path) -> list[Source]:
    """The file, then every local module that it imports, at whatever depth.

    A module is local when it lies beside the function's file, or else in the current folder, and
    is not installed. Of a package, every Python file counts.

    Raises:
        RecipeError: a file that cannot be read.
    """
    file = file.resolve()
    found = {Path(file.name): Source(file.parent, Path(file.name))}
    waiting = [file]
    while waiting:
        for name in sorted(set(_names(ast.walk(_tree(waiting.pop()))))):
            for source in _local(name, file.parent):
                if source.place not in found:
                    found[source.place] = source
                    waiting.append(source.path)
    return list(found.values())


def digest_of(file: Path) -> str:
    """A digest of a function's whole source, the same wherever it lies."""
    digest = blake2b(digest_size=16)
    for source in sorted(sources_of(file), key=lambda source: source.place.as_posix()):
        content = source.path.read_bytes()
        digest.update(f"{source.place.as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def check_imports(file: Path) -> None:
    """Raise RecipeError for a local module that is imported within a function.

    It could not be found when the function is called: local modules are, while a file is loaded.
    """
    for source in sources_of(file):
        tree = _tree(source.path)
        for name in set(_names(ast.walk(tree))) - set(_names(_outside_functions(tree))):
            if _local(name, file.resolve().parent) and PathFinder.find_spec(name) is None:
                raise RecipeError(
                    f"{source.path}: the local module '{name}' is imported within a function;"
                    " import it at the top of the file"
                )


def _tree(file: Path) -> ast.AST:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except OSError as error:
        raise RecipeError(f"{file} cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])  # loading it says what is wrong


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _outside_functions(child)


def _names(nodes: Iterator[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _local(name: str, beside: Path) -> list[Source]:
    """The files of a local module or package; none for one that is installed, or Python's own."""
    for root in (beside, Path.cwd()):
        module, package = Path(f"{name}.py"), Path(name) / "__init__.py"
        if (root / module).is_file():
            return [] if _is_installed(name) else [Source(root, module)]
        if (root / package).is_file():
            files = sorted((root / name).rglob("*.py"))
            found = [Source(root, path.relative_to(root)) for path in files]
            return [] if _is_installed(name) else found
    return []


def _is_installed(name: str) -> bool:
    if name in sys.stdlib_module_names or name == "collab":
        return True
    spec = PathFinder.find_spec(name)
    origin = Path(str(spec.origin)) if spec else Path()
    return any(origin.is_relative_to(sysconfig.get_path(kind)) for kind in ("purelib", "platlib"))
