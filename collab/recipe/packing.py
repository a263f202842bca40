"""Copy the files that a recipe names into its run's folder.

functions/    the files of the user's functions, and the local modules that they import
data/         the suite's rows, scripted answers, and episodes of an earlier run
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from collab.passed_functions import is_in_file
from collab.recipe.names import NameKind, map_names
from collab.recipe.recipe import Recipe
from collab.runs.layout import DATA, EPISODES, FUNCTIONS
from collab.runs.reading import last_read_data
from collab.trust.blocking import check_unchanged_since_approval
from collab.trust.sources import digest_of, loaded_sources, sources_of


class RecipePacker:
    """Copies the files that recipes name into one folder, each once."""

    def __init__(self, folder: Path, *, as_read: bool = True) -> None:
        """Copy each file as this process last read it for a run, or with its content now."""
        self.folder, self._as_read = folder, as_read
        self._packed: dict[tuple[NameKind, str], str] = {}
        """Names within the folder, by the kind and text of the original name."""

    def pack(self, recipe: Recipe) -> dict[str, Any]:
        """Return the recipe's data with every name relative to the folder.

        Models and adapters are not copied. Their names become whole paths. A file that does not
        exist keeps its name.

        Raises:
            OSError: a file cannot be copied.
            RecipeError: a function's file cannot be read.
            Untrusted: a third-party file has changed since it was approved.
        """
        data: dict[str, Any] = map_names(
            recipe.model_dump(mode="json", exclude_none=True), self._pack_name
        )
        return data

    def _pack_name(self, kind: NameKind, key: str, text: str) -> str:
        if (kind, text) not in self._packed:
            self._packed[kind, text] = self._pack_new_name(kind, key, text)
        return self._packed[kind, text]

    def _pack_new_name(self, kind: NameKind, key: str, text: str) -> str:
        if kind in ("module function", "component") or self._is_in_folder(text):
            return text
        if kind == "file function":
            file, _, function = text.rpartition(":")
            return f"{self._copy_function(Path(file))}:{function}" if Path(file).is_file() else text
        path = Path(text)
        if not path.exists():
            return text
        if kind == "program":
            return self._copy_function(path)
        if kind == "data" and (path / EPISODES).is_file():
            path /= EPISODES
        if path.is_file() and (kind == "data" or key == "scripted"):
            return self._relative_path(path) or self._copy_data(path)
        return self._relative_path(path) or str(path.resolve())

    def _is_in_folder(self, text: str) -> bool:
        """Return True if a name is already relative to the folder, as a trained adapter's is."""
        file = text.rpartition(":")[0] if is_in_file(text) else text
        return not Path(file).is_absolute() and (self.folder / file).exists()

    def _relative_path(self, path: Path) -> str | None:
        """Return the path relative to the folder, if it is inside."""
        real, folder = path.resolve(), self.folder.resolve()
        return real.relative_to(folder).as_posix() if real.is_relative_to(folder) else None

    def _copy_function(self, file: Path) -> str:
        sources = (self._as_read and loaded_sources.get(file.resolve())) or sources_of(file)
        digest = digest_of(sources)
        check_unchanged_since_approval(str(file.resolve()), digest)
        if path_in_folder := self._relative_path(file):
            return path_in_folder
        contents = {source.place: source.content for source in sources}
        for root in self._free_names(FUNCTIONS, "", contents):
            for place, content in contents.items():
                target = self.folder / root / place
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            name = f"{root}/{file.resolve().name}"
            if digest_of(sources_of(self.folder / name)) == digest:  # it imports nothing else there
                return name
        raise AssertionError("there is no end of names")

    def _copy_data(self, path: Path) -> str:
        content = (self._as_read and last_read_data(path)) or path.read_bytes()
        stem, dot, suffixes = path.name.partition(".")
        place = next(self._free_names(f"{DATA}/{stem}", dot + suffixes, {Path(): content}))
        target = self.folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return place

    def _free_names(self, name: str, suffix: str, contents: Mapping[Path, bytes]) -> Iterator[str]:
        """Yield `name`, `name-2` and so on, except names that other content already has."""
        for number in count(1):
            place = f"{name}{suffix}" if number == 1 else f"{name}-{number}{suffix}"
            if not any(_has_other_content(self.folder / place / p, c) for p, c in contents.items()):
                yield place


def _has_other_content(path: Path, content: bytes) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != content)
