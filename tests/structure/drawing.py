"""The package as a graph of files, folders and imports."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from os.path import commonpath
from pathlib import Path


def arrows(package: Path) -> list[tuple[Path, Path]]:
    """Each file of the package with each file of the package that it imports anywhere."""
    return [
        (file, imported)
        for file in sorted(package.rglob("*.py"))
        for name in imports(file, lazy=True)
        if (imported := _file_of(package, name)) and imported != file
    ]


@cache
def imports(path: Path, *, lazy: bool) -> set[str]:
    """The modules that a file imports; with `lazy`, also within functions."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if lazy else iter(tree.body)
    return {name for node in nodes for name in _names(node)}


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file_of(package: Path, name: str) -> Path | None:
    """The file of an imported name: a module, or a package's `__init__.py`."""
    parts = name.split(".")
    while parts and parts[0] == package.name:
        place = package.parent.joinpath(*parts)
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.exists():
                return file
        parts.pop()
    return None


def import_cycles(package: Path) -> list[str]:
    """Import cycles between the files and subpackages of each package."""
    found = []
    graphs: dict[Path, dict[str, set[str]]] = {}
    for importer, imported in arrows(package):
        folder = Path(commonpath((importer, imported)))
        above, below = (path.relative_to(folder).parts[0] for path in (importer, imported))
        graphs.setdefault(folder, {}).setdefault(above, set()).add(below)
    for folder, graph in sorted(graphs.items()):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            loop = " imports ".join(reversed(error.args[1]))
            found.append(f"{folder.relative_to(package.parent)}: {loop}")
    return found


def crowded(root: Path, most: int) -> list[str]:
    """The folders with more than `most` Python files."""
    folders = {file.parent for file in root.rglob("*.py")}
    counts = {folder: len(list(folder.glob("*.py"))) for folder in sorted(folders)}
    return [f"{folder}: {count} files" for folder, count in counts.items() if count > most]


def lengths(root: Path, *endings: str) -> dict[Path, int]:
    """The number of lines of each file with these suffixes, or of each Python file."""
    files = [file for ending in endings or (".py",) for file in root.rglob(f"*{ending}")]
    return {file: len(file.read_text().splitlines()) for file in sorted(files)}
