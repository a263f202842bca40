"""The source of a user's function: its file, and the local modules that the file imports."""

from __future__ import annotations

import ast
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.machinery import PathFinder
from pathlib import Path

from collab.errors import RecipeError
from collab.runs.reading import open_file

_INSTALL_FOLDERS = {
    *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
    *site.getsitepackages(),
    site.getusersitepackages(),
}


MAX_FOLDERS = 5_000
"""Limit of the folders in an imported package."""
MAX_SCRIPT_BYTES = 1_000_000
"""Largest file without the suffix `.py` that is read as if it were a Python script."""
MAX_FILE_BYTES, MAX_PACKAGE_BYTES = 5_000_000, 100_000_000
"""Limits of the source of a function: of one file, and of the files of an imported package."""


@dataclass(frozen=True)
class SourceFile:
    """One file of a function's source, read once: digest and code come from the same bytes."""

    root: Path
    """Folder in which imports are looked up."""
    place: Path
    """Path of the file within the folder."""
    content: bytes = field(repr=False)

    @property
    def path(self) -> Path:
        return (self.root / self.place).resolve()

    @property
    def module(self) -> str:
        """Dotted name by which the file is imported."""
        return ".".join(self.place.with_suffix("").parts).removesuffix(".__init__")

    @property
    def is_package(self) -> bool:
        return self.place.name == "__init__.py"


def sources_of(file: Path) -> list[SourceFile]:
    """Return the file, then every local module that it imports, directly or indirectly.

    A module is local if it is in the folder of `file`, otherwise in the current folder,
    and is not installed. Every Python file of a package counts.

    Raises:
        RecipeError: a file cannot be read.
    """
    file = file.resolve()
    return _add_imports([_read_source(file.parent, Path(file.name))], file.parent)


loaded_sources: dict[Path, list[SourceFile]] = {}
"""The sources of each file when this process last loaded a function of it."""


def sources_of_script(file: Path) -> list[SourceFile]:
    """Return the sources of a file that a command may pass to Python, regardless of the file's
    name. See `sources_of`.

    A file that is not Python imports nothing. Large files without the suffix `.py` have no sources.

    Raises:
        RecipeError: a file cannot be read.
    """
    is_script = file.suffix == ".py" or file.stat().st_size <= MAX_SCRIPT_BYTES
    return sources_of(file) if is_script and file.is_file() else []


def sources_of_module(name: str) -> list[SourceFile]:
    """Return the files of an importable module's package, then the local modules that these import.

    The result is empty for modules that are installed, or that Python does not find.

    Raises:
        RecipeError: the module is compiled, without a source to read.
    """
    top = name.partition(".")[0]
    spec = None if _is_installed_module(top) else PathFinder.find_spec(top)
    if spec is None:
        return []
    folders = spec.submodule_search_locations
    root = Path(next(iter(folders)) if folders else str(spec.origin)).parent
    if first := _local_files(top, [root]):
        return _add_imports(first, root)
    raise RecipeError(
        f"the module '{name}' has no source in {root}; collab runs modules that are not installed"
        " from source only; install the package"
    )


def digest_of(sources: Iterable[SourceFile]) -> str:
    """Return a digest of a function's whole source, independent of its location."""
    digest = blake2b(digest_size=16)
    for source in sorted(sources, key=lambda source: source.place.as_posix()):
        place = os.fsencode(source.place.as_posix())  # can contain any byte, so lengths go first
        digest.update(f"{len(place)} {len(source.content)}\n".encode() + place + source.content)
    return digest.hexdigest()


def _add_imports(first: list[SourceFile], folder: Path) -> list[SourceFile]:
    sources = {source.place: source for source in first}
    waiting = [*first]
    while waiting:
        for name in sorted(set(_imported_names(waiting.pop()))):
            for source in _local_files(name, [folder, Path.cwd()]):
                if source.place not in sources:
                    sources[source.place] = source
                    waiting.append(source)
    return list(sources.values())


def _read_source(root: Path, place: Path) -> SourceFile:
    try:
        with open_file(root / place) as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise RecipeError(f"{root / place} cannot be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise RecipeError(
            f"{root / place} has more than {MAX_FILE_BYTES:,} bytes; move its data to another file"
        )
    return SourceFile(root, place, content)


def _imported_names(source: SourceFile) -> Iterator[str]:
    """Yield the top-level names that a file imports, also within functions."""
    for node in ast.walk(_parse_source(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _parse_source(source: SourceFile) -> ast.AST:
    try:
        return ast.parse(source.content, str(source.path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])  # loading it says what is wrong


def _local_files(name: str, roots: Iterable[Path]) -> list[SourceFile]:
    """Return the files of a local module or package; none if it is installed, or Python's own.

    A package needs no `__init__.py`.
    """
    for root in roots:
        if os.path.isfile(root / f"{name}.py"):  # noqa: PTH113  # unlike Path, takes a long name
            return [] if _is_installed_module(name) else [_read_source(root, Path(f"{name}.py"))]
        if os.path.isdir(root / name):  # noqa: PTH112
            files = [] if _is_installed_module(name) else _python_files(root / name)
            return [_read_source(root, path.relative_to(root)) for path in files]
    return []


def _python_files(folder: Path) -> list[Path]:
    """Return the Python files below a folder, each folder once, although links may lead to it.

    Raises:
        RecipeError: the folder has too many folders, or too many bytes of source.
    """
    files: list[Path] = []
    seen: set[str] = set()
    size = 0
    for parent, subfolders, names in os.walk(folder, followlinks=True):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__")
        if (real := os.path.realpath(parent)) in seen:
            subfolders.clear()
            continue
        seen.add(real)
        sources = [Path(parent, name) for name in names if name.endswith(".py")]
        files += sources
        size += sum(path.stat().st_size for path in sources if path.is_file())
        if len(seen) > MAX_FOLDERS or size > MAX_PACKAGE_BYTES:
            raise RecipeError(
                f"the imported folder {folder} has more than {MAX_FOLDERS:,} folders or"
                f" {MAX_PACKAGE_BYTES:,} bytes of source; import from a smaller one"
            )
    return sorted(files)


def _is_installed_module(name: str) -> bool:
    """Return True if a module is Python's own, collab's, or installed."""
    if name in sys.stdlib_module_names or name == "collab":
        return True
    spec = PathFinder.find_spec(name)
    return spec is not None and is_installed(Path(str(spec.origin)))


def is_installed(path: Path) -> bool:
    """Return True if a file or folder is where packages are installed."""
    return any(path.is_relative_to(folder) for folder in _INSTALL_FOLDERS)
